// Codecs that the client leaves to others: snappy as its documentation says, lz4 and zstd by the first that make and read whole frames.

import kafkajs from "kafkajs"
import snappy from "kafkajs-snappy"
import lz4 from "lz4-napi"
import { ZstdCodec } from "zstd-codec"

const { CompressionTypes, CompressionCodecs } = kafkajs

const zstd = new Promise((resolve) => ZstdCodec.run((z) => resolve(new z.Simple())))

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (bytes) => lz4.decompressFrame(bytes),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (bytes) => Buffer.from((await zstd).decompress(bytes)),
})

export const CODECS = {
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
