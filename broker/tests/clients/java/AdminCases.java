// Topics by the admin client.

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

final class AdminCases {
    static void topics() throws Exception {
        String topic = "java-admin-" + Suite.RUN;
        NewTopic wanted = new NewTopic(topic, 3, (short) 1).configs(Map.of("retention.ms", "3600000"));
        try (Admin admin = Clients.admin()) {
            admin.createTopics(List.of(wanted)).all().get();
            Suite.expectThrown("a topic made twice", TopicExistsException.class,
                    () -> admin.createTopics(List.of(wanted)).all().get());
            Suite.expectThrown("a topic with a space in its name", InvalidTopicException.class,
                    () -> admin.createTopics(List.of(new NewTopic("a b", 1, (short) 1))).all().get());

            Set<Integer> nodes = new HashSet<>();
            admin.describeCluster().nodes().get().forEach(n -> nodes.add(n.id()));
            TopicDescription described = describe(admin, topic);
            Suite.expect("partitions", described.partitions().stream().map(TopicPartitionInfo::partition).toList(), List.of(0, 1, 2));
            for (TopicPartitionInfo p : described.partitions()) {
                Suite.expect("the leader is a node of the cluster", nodes.contains(p.leader().id()), true);
            }
            Suite.expect("the list names it", admin.listTopics().names().get().contains(topic), true);

            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
            Suite.expect("retention.ms", config.get("retention.ms").value(), "3600000");
            Suite.expect("retention.bytes", config.get("retention.bytes").value(), "-1");

            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            // A controller answers before its brokers know.
            Suite.until("there are five partitions", () -> describe(admin, topic).partitions().size() == 5,
                    () -> describe(admin, topic));
            Suite.expectThrown("fewer partitions", InvalidPartitionsException.class,
                    () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get());

            admin.deleteTopics(List.of(topic)).all().get();
            Suite.until("the topic is gone from the list", () -> !admin.listTopics().names().get().contains(topic), () -> topic);
            Suite.expectThrown("a description of a deleted topic", UnknownTopicOrPartitionException.class, () -> describe(admin, topic));
            Suite.expectThrown("a topic deleted twice", UnknownTopicOrPartitionException.class,
                    () -> admin.deleteTopics(List.of(topic)).all().get());
        }
    }

    private static TopicDescription describe(Admin admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }
}
