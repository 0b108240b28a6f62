import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a consumer group with Apache Kafka's Java client: it commits after processing, and says so.
 *
 * <p>Arguments: BOOTSTRAP GROUP TOPIC [KEY=VALUE...], the last being settings of the consumer. Prints what clients/python/group_history.py says of a
 * member's lines; leaves the group and ends at SIGTERM.
 */
public final class GroupMember {
    private static volatile boolean leaving;
    private static volatile boolean left;

    private GroupMember() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 3) {
            System.err.println("usage: GroupMember BOOTSTRAP GROUP TOPIC [KEY=VALUE...]");
            System.exit(2);
        }
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> leave(main)));
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(arguments), new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(arguments[2]), new Listener());
        while (!leaving) {
            process(consumer);
        }
        consumer.close(Duration.ofSeconds(20));
        System.out.println("left");
        left = true;
    }

    /** In the hook that SIGTERM starts: what the main thread does next is its last, and the exit code tells that it was. */
    private static void leave(Thread main) {
        leaving = true;
        try {
            main.join();
        } catch (InterruptedException error) {
            Runtime.getRuntime().halt(1);
        }
        System.out.flush();
        Runtime.getRuntime().halt(left ? 0 : 1);
    }

    private static Map<String, Object> settings(String[] arguments) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "1000");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", "100");
        for (int index = 3; index < arguments.length; index++) {
            String[] parts = arguments[index].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        return settings;
    }

    private static void process(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
            System.out.println("record " + record.partition() + " " + record.offset() + " " + record.value());
            positions.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        if (positions.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(positions);
        } catch (KafkaException error) {
            // Somebody else has the partitions now, and begins where was committed before.
            System.out.println("error " + error);
            return;
        }
        positions.forEach((partition, position) -> System.out.println("commit " + partition.partition() + " " + position.offset()));
    }

    private static final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            System.out.println("revoked");
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            System.out.println("assigned " + partitions.stream().map(one -> "" + one.partition()).sorted().collect(Collectors.joining(",")));
        }
    }
}
