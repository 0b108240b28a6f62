import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Apache Kafka's Java client against a broker: topics, produce, fetch by offset and by timestamp, groups, admin.
 *
 * <p>Argument: HOST:PORT. Prints `ok` or `FAIL` for each step, then `N passed, N failed`; exit code 1 where a step failed.
 */
public final class JavaClient {
    private static final int RECORDS_PER_PARTITION = 200;
    private static final long MILLISECONDS_BETWEEN_RECORDS = 10;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd"); // one partition each
    private static final int PLAIN_PARTITION = CODECS.size(); // written without idempotence, acks=1
    private static final int PARTITIONS = PLAIN_PARTITION + 1;
    private static final int STEP_LIMIT_SECONDS = 40;

    private final String bootstrap;
    private final String topic;
    private final String shortLivedTopic;
    private final String group;
    private final long firstTimestamp;
    private final List<List<Sent>> records = new ArrayList<>();
    private final Admin admin;
    private final ExecutorService stepRunner =
            Executors.newCachedThreadPool(
                    task -> {
                        Thread thread = new Thread(task);
                        thread.setDaemon(true);
                        return thread;
                    });
    private int passed;
    private int failed;

    /** One record as it is sent and as it must come back. */
    private record Sent(String key, String value, long timestamp, List<String> headers) {}

    private interface Action {
        void run() throws Exception;
    }

    private JavaClient(String bootstrap) {
        this.bootstrap = bootstrap;
        String run = Long.toString(System.currentTimeMillis(), 36);
        topic = "java-" + run;
        shortLivedTopic = "java-short-lived-" + run;
        group = "java-group-" + run;
        // An hour ago, so that no retention limit removes what is written.
        firstTimestamp = System.currentTimeMillis() - 3_600_000;
        for (int partition = 0; partition < PARTITIONS; partition++) {
            records.add(makeRecords(partition));
        }
        admin = Admin.create(settings(Map.of()));
    }

    public static void main(String[] arguments) {
        if (arguments.length != 1) {
            System.err.println("usage: JavaClient HOST:PORT");
            System.exit(2);
        }
        System.out.println("kafka-clients " + AppInfoParser.getVersion());
        JavaClient client = new JavaClient(arguments[0]);
        client.runSteps();
        System.out.println(client.passed + " passed, " + client.failed + " failed");
        System.out.flush();
        // A client that has failed may still have threads that wait for the broker: do not wait for them.
        Runtime.getRuntime().halt(client.failed > 0 ? 1 : 0);
    }

    private void runSteps() {
        step("create a topic", this::createTopic);
        step("creating it again is refused", this::createTopicAgain);
        for (int partition = 0; partition < CODECS.size(); partition++) {
            int number = partition;
            String codec = CODECS.get(partition);
            step("produce, idempotent, " + codec, () -> produce(number, Map.of("compression.type", codec)));
        }
        Map<String, Object> plain = Map.of("enable.idempotence", "false", "acks", "1");
        step("produce, not idempotent, acks=1", () -> produce(PLAIN_PARTITION, plain));
        step("read every partition from offset 0", this::readEverything);
        step("read from an offset in the middle", () -> expectRecords(read(0, 77, Map.of()), sentFrom(0, 77)));
        step("read from the middle of a compressed batch", () -> expectRecords(read(4, 123, Map.of()), sentFrom(4, 123)));
        step("read in small fetches", this::readInSmallFetches);
        step("first and last offsets, and that of the largest timestamp", this::firstAndLastOffsets);
        step("offsets for timestamps", this::offsetsByTimestamp);
        step("read from a timestamp", this::readFromTimestamp);
        step("an offset out of range is an error", this::readOutOfRange);
        step("describe the topic", this::describeTopic);
        step("describe the topic's configuration", this::describeTopicConfiguration);
        step("describe the broker's configuration", this::describeBrokerConfiguration);
        step("alter the configuration incrementally", this::alterConfiguration);
        step("a bad configuration value is refused", this::alterConfigurationWithABadValue);
        step("describe the cluster", this::describeCluster);
        step("read in a group, and commit", this::readInAGroup);
        step("list and describe the group", this::listAndDescribeGroup);
        step("alter the group's offsets", this::alterGroupOffsets);
        step("delete the group's offsets", this::deleteGroupOffsets);
        step("delete the group", this::deleteGroup);
        step("create partitions", this::createPartitions);
        step("fewer partitions are refused", this::createFewerPartitions);
        step("delete records", this::deleteRecords);
        step("delete a topic", this::deleteTopic);
    }

    // ---- steps and checks

    private void step(String name, Action action) {
        long start = System.currentTimeMillis();
        Future<?> running =
                stepRunner.submit(
                        () -> {
                            action.run();
                            return null;
                        });
        try {
            running.get(STEP_LIMIT_SECONDS, TimeUnit.SECONDS);
            passed++;
            System.out.printf("ok   %s (%.1f s)%n", name, (System.currentTimeMillis() - start) / 1000.0);
        } catch (Exception error) {
            running.cancel(true);
            failed++;
            Throwable cause = innermost(error);
            System.out.println("FAIL " + name + ": " + cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
    }

    private static Throwable innermost(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause;
    }

    private static void expectEqual(String what, Object wanted, Object got) {
        if (!Objects.equals(wanted, got)) {
            throw new AssertionError(what + ": wanted " + wanted + ", got " + got);
        }
    }

    private static void expectRecords(List<Sent> got, List<Sent> wanted) {
        expectEqual("number of records", wanted.size(), got.size());
        for (int index = 0; index < wanted.size(); index++) {
            expectEqual("record " + index, wanted.get(index), got.get(index));
        }
    }

    private static void expectError(Class<? extends Exception> wanted, Action action) throws Exception {
        try {
            action.run();
        } catch (Exception error) {
            Throwable got = error instanceof ExecutionException ? error.getCause() : error;
            if (!wanted.isInstance(got)) {
                throw new AssertionError("wanted " + wanted.getSimpleName() + ", got " + got);
            }
            return;
        }
        throw new AssertionError("wanted " + wanted.getSimpleName() + ", but the call succeeded");
    }

    /** Repeats the call until it gives what is wanted: metadata reaches a broker a moment after a change is acknowledged. */
    private static void eventually(Object wanted, Callable<Object> call) throws Exception {
        long deadline = System.currentTimeMillis() + 10_000;
        while (true) {
            Object got;
            try {
                got = call.call();
            } catch (ExecutionException error) {
                got = error.getCause();
            }
            if (Objects.equals(wanted, got)) {
                return;
            }
            if (System.currentTimeMillis() > deadline) {
                throw new AssertionError("after 10 s: wanted " + wanted + ", got " + got);
            }
            Thread.sleep(100);
        }
    }

    // ---- records

    /** Records with every shape: with and without key, empty and null values, duplicate header keys, a null header value. */
    private List<Sent> makeRecords(int partition) {
        List<Sent> made = new ArrayList<>();
        for (int index = 0; index < RECORDS_PER_PARTITION; index++) {
            String key = index % 7 == 0 ? null : "key-" + index;
            String value = "java " + partition + " record " + index + ", some text that a codec can make smaller, smaller, smaller";
            if (index % 11 == 3) {
                value = "";
            }
            if (index % 11 == 5) {
                value = null;
            }
            List<String> headers = List.of();
            if (index % 3 == 0) {
                headers = List.of("trace=first " + index, "trace=second", "empty=", "null");
            }
            made.add(new Sent(key, value, firstTimestamp + index * MILLISECONDS_BETWEEN_RECORDS, headers));
        }
        return made;
    }

    private List<Sent> sentFrom(int partition, int index) {
        return records.get(partition).subList(index, RECORDS_PER_PARTITION);
    }

    private static Header toHeader(String text) {
        String[] parts = text.split("=", 2);
        return new RecordHeader(parts[0], parts.length == 2 ? parts[1].getBytes(StandardCharsets.UTF_8) : null);
    }

    private static String fromHeader(Header header) {
        byte[] value = header.value();
        return header.key() + (value == null ? "" : "=" + new String(value, StandardCharsets.UTF_8));
    }

    private Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("default.api.timeout.ms", "15000");
        settings.put("request.timeout.ms", "10000");
        settings.putAll(more);
        return settings;
    }

    /** Sends the partition's records and checks the offset that each was given. */
    private void produce(int partition, Map<String, Object> configuration) throws Exception {
        Map<String, Object> settings = settings(configuration);
        settings.put("linger.ms", "20");
        settings.put("delivery.timeout.ms", "20000");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> answers = new ArrayList<>();
            for (Sent record : records.get(partition)) {
                List<Header> headers = record.headers().stream().map(JavaClient::toHeader).toList();
                answers.add(
                        producer.send(
                                new ProducerRecord<>(
                                        topic, partition, record.timestamp(), record.key(), record.value(), headers)));
            }
            for (int index = 0; index < answers.size(); index++) {
                expectEqual("offset", (long) index, answers.get(index).get().offset());
            }
        }
    }

    private KafkaConsumer<String, String> newConsumer(Map<String, Object> configuration) {
        Map<String, Object> settings = settings(configuration);
        settings.put("auto.offset.reset", "none");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    /** Reads the partition from an offset to the end that it has now. */
    private List<Sent> read(int partition, long offset, Map<String, Object> configuration) {
        TopicPartition place = new TopicPartition(topic, partition);
        try (var consumer = newConsumer(configuration)) {
            consumer.assign(List.of(place));
            consumer.seek(place, offset);
            long end = consumer.endOffsets(List.of(place)).get(place);
            List<Sent> got = new ArrayList<>();
            long deadline = System.currentTimeMillis() + 20_000;
            while (consumer.position(place) < end || offset > end) {
                if (System.currentTimeMillis() > deadline) {
                    throw new AssertionError("the end of the partition did not come; " + got.size() + " records so far");
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    expectEqual("offset", offset + got.size(), record.offset());
                    List<String> headers = new ArrayList<>();
                    record.headers().forEach(header -> headers.add(fromHeader(header)));
                    got.add(new Sent(record.key(), record.value(), record.timestamp(), headers));
                }
            }
            return got;
        }
    }

    // ---- what the steps do

    private void createTopic() throws Exception {
        NewTopic wanted = new NewTopic(topic, PARTITIONS, (short) 1).configs(Map.of("retention.ms", "86400000"));
        admin.createTopics(List.of(wanted)).all().get();
        eventually(PARTITIONS, this::partitionCount);
    }

    private Object partitionCount() throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    private void createTopicAgain() throws Exception {
        NewTopic same = new NewTopic(topic, 1, (short) 1);
        expectError(TopicExistsException.class, () -> admin.createTopics(List.of(same)).all().get());
    }

    private void readEverything() {
        for (int partition = 0; partition < PARTITIONS; partition++) {
            expectRecords(read(partition, 0, Map.of()), records.get(partition));
        }
    }

    private void readInSmallFetches() {
        expectRecords(read(0, 0, Map.of("max.partition.fetch.bytes", "1000", "fetch.max.bytes", "1000")), records.get(0));
    }

    private long listedOffset(int partition, OffsetSpec specification) throws Exception {
        TopicPartition place = new TopicPartition(topic, partition);
        return admin.listOffsets(Map.of(place, specification)).all().get().get(place).offset();
    }

    private void firstAndLastOffsets() throws Exception {
        for (int partition = 0; partition < PARTITIONS; partition++) {
            expectEqual("earliest", 0L, listedOffset(partition, OffsetSpec.earliest()));
            expectEqual("latest", (long) RECORDS_PER_PARTITION, listedOffset(partition, OffsetSpec.latest()));
            long last = RECORDS_PER_PARTITION - 1;
            expectEqual("the largest timestamp's", last, listedOffset(partition, OffsetSpec.maxTimestamp()));
        }
    }

    /** The offset and the timestamp of the first record that is as late as `timestamp`, or null where there is none. */
    private List<Long> offsetForTime(int partition, long timestamp) {
        TopicPartition place = new TopicPartition(topic, partition);
        try (var consumer = newConsumer(Map.of())) {
            OffsetAndTimestamp answer = consumer.offsetsForTimes(Map.of(place, timestamp)).get(place);
            return answer == null ? null : List.of(answer.offset(), answer.timestamp());
        }
    }

    private void offsetsByTimestamp() {
        long at50 = firstTimestamp + 50 * MILLISECONDS_BETWEEN_RECORDS;
        long at51 = at50 + MILLISECONDS_BETWEEN_RECORDS;
        long afterAll = firstTimestamp + RECORDS_PER_PARTITION * MILLISECONDS_BETWEEN_RECORDS;
        for (int partition = 0; partition < PARTITIONS; partition++) {
            expectEqual("before the first", List.of(0L, firstTimestamp), offsetForTime(partition, firstTimestamp - 1));
            expectEqual("at record 50", List.of(50L, at50), offsetForTime(partition, at50));
            expectEqual("just after record 50", List.of(51L, at51), offsetForTime(partition, at50 + 1));
            expectEqual("after the last", null, offsetForTime(partition, afterAll));
        }
    }

    private void readFromTimestamp() {
        List<Long> found = offsetForTime(2, firstTimestamp + 120 * MILLISECONDS_BETWEEN_RECORDS - 3);
        expectRecords(read(2, found.get(0), Map.of()), sentFrom(2, 120));
    }

    private void readOutOfRange() throws Exception {
        expectError(OffsetOutOfRangeException.class, () -> read(0, 100_000, Map.of()));
    }

    private void describeTopic() throws Exception {
        var description = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        for (var partition : description.partitions()) {
            expectEqual("replicas", 1, partition.replicas().size());
            expectEqual("in-sync replicas", partition.replicas(), partition.isr());
            expectEqual("leader", partition.replicas().get(0), partition.leader());
        }
        expectEqual("listed", true, admin.listTopics().names().get().contains(topic));
    }

    private ConfigEntry topicSetting(String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
    }

    private void describeTopicConfiguration() throws Exception {
        expectEqual("cleanup.policy", "delete", topicSetting("cleanup.policy").value());
        expectEqual("retention.ms", "86400000", topicSetting("retention.ms").value());
        expectEqual("source", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, topicSetting("retention.ms").source());
    }

    private void describeBrokerConfiguration() throws Exception {
        String brokerId = admin.describeCluster().nodes().get().iterator().next().idString();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, brokerId);
        var configuration = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        for (String name : List.of("num.partitions", "log.dirs", "advertised.listeners")) {
            expectEqual(name + " is there", true, configuration.get(name) != null);
        }
    }

    private void alter(String name, String value, AlterConfigOp.OpType operation) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), operation);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    private void alterConfiguration() throws Exception {
        alter("max.message.bytes", "2000000", AlterConfigOp.OpType.SET);
        eventually("2000000", () -> topicSetting("max.message.bytes").value());
        expectEqual("retention.ms, which was not altered", "86400000", topicSetting("retention.ms").value());
        alter("max.message.bytes", null, AlterConfigOp.OpType.DELETE);
        eventually(true, () -> topicSetting("max.message.bytes").isDefault());
        // Appending what a list has, and taking away what it has not, are allowed and change nothing.
        alter("cleanup.policy", "delete", AlterConfigOp.OpType.APPEND);
        alter("cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT);
        eventually("delete", () -> topicSetting("cleanup.policy").value());
    }

    private void alterConfigurationWithABadValue() throws Exception {
        Action action = () -> alter("retention.ms", "abc", AlterConfigOp.OpType.SET);
        expectError(InvalidConfigurationException.class, action);
    }

    private void describeCluster() throws Exception {
        var cluster = admin.describeCluster();
        expectEqual("there is a cluster id", false, cluster.clusterId().get().isEmpty());
        expectEqual("the controller is a node", true, cluster.nodes().get().contains(cluster.controller().get()));
    }

    private Map<TopicPartition, OffsetAndMetadata> groupOffsets() throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    private boolean isGroupListed() throws Exception {
        return admin.listGroups().all().get().stream().anyMatch(one -> one.groupId().equals(group));
    }

    private void readInAGroup() throws Exception {
        Map<String, Object> settings = settings(Map.of("group.id", group, "enable.auto.commit", "false", "auto.offset.reset", "earliest"));
        int wanted = PARTITIONS * RECORDS_PER_PARTITION;
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            int count = 0;
            long deadline = System.currentTimeMillis() + 30_000;
            while (count < wanted && System.currentTimeMillis() < deadline) {
                count += consumer.poll(Duration.ofMillis(500)).count();
            }
            expectEqual("records", wanted, count);
            consumer.commitSync();
            expectEqual("members", 1, admin.describeConsumerGroups(List.of(group)).all().get().get(group).members().size());
        }
        expectEqual("partitions", PARTITIONS, groupOffsets().size());
        for (OffsetAndMetadata committed : groupOffsets().values()) {
            expectEqual("committed", (long) RECORDS_PER_PARTITION, committed.offset());
        }
    }

    private void listAndDescribeGroup() throws Exception {
        expectEqual("listed", true, isGroupListed());
        var description = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        expectEqual("state", "Empty", description.groupState().toString());
        expectEqual("members", 0, description.members().size());
    }

    private void alterGroupOffsets() throws Exception {
        TopicPartition place = new TopicPartition(topic, 2);
        admin.alterConsumerGroupOffsets(group, Map.of(place, new OffsetAndMetadata(17, "by hand"))).all().get();
        expectEqual("offset", new OffsetAndMetadata(17, "by hand"), groupOffsets().get(place));
    }

    private void deleteGroupOffsets() throws Exception {
        TopicPartition place = new TopicPartition(topic, 2);
        admin.deleteConsumerGroupOffsets(group, Set.of(place)).all().get();
        expectEqual("offset", null, groupOffsets().get(place));
    }

    private void deleteGroup() throws Exception {
        admin.deleteConsumerGroups(List.of(group)).all().get();
        expectEqual("listed", false, isGroupListed());
        expectError(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
    }

    private void createPartitions() throws Exception {
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(PARTITIONS + 2))).all().get();
        eventually(PARTITIONS + 2, this::partitionCount);
        expectRecords(read(PARTITIONS + 1, 0, Map.of()), List.of());
    }

    private void createFewerPartitions() throws Exception {
        Action action = () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(1))).all().get();
        expectError(InvalidPartitionsException.class, action);
    }

    private void deleteRecords() throws Exception {
        TopicPartition place = new TopicPartition(topic, 1);
        var answer = admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(60)));
        expectEqual("low watermark", 60L, answer.lowWatermarks().get(place).get().lowWatermark());
        expectEqual("earliest", 60L, listedOffset(1, OffsetSpec.earliest()));
        expectRecords(read(1, 60, Map.of()), sentFrom(1, 60));
        expectError(OffsetOutOfRangeException.class, () -> read(1, 10, Map.of()));
    }

    private void deleteTopic() throws Exception {
        admin.createTopics(Arrays.asList(new NewTopic(shortLivedTopic, 2, (short) 1))).all().get();
        eventually(true, () -> admin.listTopics().names().get().contains(shortLivedTopic));
        admin.deleteTopics(List.of(shortLivedTopic)).all().get();
        eventually(false, () -> admin.listTopics().names().get().contains(shortLivedTopic));
        Action again = () -> admin.deleteTopics(List.of(shortLivedTopic)).all().get();
        expectError(UnknownTopicOrPartitionException.class, again);
    }
}
