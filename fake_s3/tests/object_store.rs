//! The client passes `object_store`'s own test suite against the server, over real tokio and loopback TCP.

use fake_s3::{Client, ClientConfig, Disk, Latency, ServerConfig, serve};
use object_store::integration;
use rt::net::TcpListener;

async fn client() -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let quick = Latency { base_us: 0, jitter_us: 200 };
    let config = ServerConfig {
        write: quick,
        read: quick,
        head: quick,
        list: quick,
        delete: quick,
        ..Default::default()
    };
    rt::spawn("s3", async move { serve(listener, Disk::default(), config).await });
    Client::new(endpoint, ClientConfig { request_timeout_ms: 20_000, ..Default::default() })
}

#[tokio::test]
async fn objects_are_put_read_listed_and_deleted() {
    let client = client().await;
    integration::put_get_delete_list(&client).await;
    integration::list_uses_directories_correctly(&client).await;
    integration::list_with_delimiter(&client).await;
    integration::list_with_offset_exclusivity(&client).await;
    integration::put_get_attributes(&client).await;
}

#[tokio::test]
async fn conditions_hold() {
    let client = client().await;
    integration::get_opts(&client).await;
    integration::put_opts(&client, true).await;
}

#[tokio::test]
async fn objects_are_copied_and_renamed() {
    let client = client().await;
    integration::rename_and_copy(&client).await;
    integration::copy_if_not_exists(&client).await;
    integration::copy_rename_nonexistent_object(&client).await;
}

#[tokio::test]
async fn objects_are_uploaded_in_parts() {
    let client = client().await;
    integration::stream_get(&client).await;
    integration::multipart_race_condition(&client, true).await;
    integration::multipart_out_of_order(&client).await;
}
