import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/**
 * Java consumers that a test leads by the hand: commands come in lines on the input, what happens goes out as one JSON object a line.
 * It retries nothing and judges nothing; it ends with its input.
 *
 * <pre>
 * NAME start TOPIC SETTING=VALUE ...    subscribes, then polls until another command
 * NAME commit | close | pause | resume | unsubscribe | subscribe TOPIC | rebalance REASON_
 * ADMIN remove GROUP REASON_ all | INSTANCE_ID ...      (ADMIN is the bootstrap servers; "_" in a reason is a blank)
 * </pre>
 */
public class Consumers {
    private static final Map<String, Running> CONSUMERS = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        emit("", "ready", "");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[1].equals("remove")) {
                new Thread(() -> remove(words)).start();
            } else if (words[1].equals("start")) {
                CONSUMERS.put(words[0], new Running(words));
            } else {
                CONSUMERS.get(words[0]).command(words);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    static synchronized void emit(String consumer, String event, String more) {
        System.out.println("{\"consumer\":" + quoted(consumer) + ",\"event\":" + quoted(event) + more + "}");
        System.out.flush();
    }

    static String quoted(String text) {
        String escaped = text.chars().mapToObj(c -> c < 32 || c == '"' || c == '\\' ? String.format("\\u%04x", c) : "" + (char) c)
                .collect(Collectors.joining());
        return '"' + escaped + '"';
    }

    static void emitError(String consumer, Throwable error) {
        emit(consumer, "error", ",\"error\":" + quoted(error.getClass().getSimpleName()) + ",\"message\":" + quoted("" + error.getMessage()));
    }

    private static String reason(String word) {
        return word.replace('_', ' ');
    }

    private static void remove(String[] words) {
        String group = words[2];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", words[0]))) {
            var options = new RemoveMembersFromConsumerGroupOptions();
            if (!words[4].equals("all")) {
                var instances = Arrays.stream(words).skip(4).map(MemberToRemove::new).collect(Collectors.toList());
                options = new RemoveMembersFromConsumerGroupOptions(instances);
            }
            options.reason(reason(words[3]));
            admin.removeMembersFromConsumerGroup(group, options).all().get();
            emit(group, "removed", "");
        } catch (ExecutionException error) {
            emitError(group, error.getCause());
        } catch (InterruptedException | RuntimeException error) {
            emitError(group, error);
        }
    }

    /** One consumer with a thread of its own, the only one that touches it. */
    private static final class Running implements ConsumerRebalanceListener, Runnable {
        private final String name;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final LinkedBlockingQueue<String[]> commands = new LinkedBlockingQueue<>();
        private boolean isPaused;
        private boolean isClosed;

        Running(String[] words) {
            name = words[0];
            var settings = new Properties();
            settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            Arrays.stream(words).skip(3).forEach(word -> settings.put(word.split("=", 2)[0], word.split("=", 2)[1]));
            consumer = new KafkaConsumer<>(settings);
            consumer.subscribe(List.of(words[2]), this);
            new Thread(this, name).start();
        }

        void command(String[] words) {
            commands.add(words);
        }

        @Override
        public void run() {
            try {
                while (!isClosed) {
                    String[] words = isPaused || consumer.subscription().isEmpty() ? commands.take() : commands.poll();
                    if (words != null) {
                        obey(words);
                    } else {
                        poll();
                    }
                }
            } catch (Exception error) {
                emitError(name, error);
                closeQuietly();
            }
        }

        private void poll() {
            var records = consumer.poll(Duration.ofMillis(50));
            if (!records.isEmpty()) {
                emit(name, "records", ",\"count\":" + records.count());
            }
        }

        private void obey(String[] words) throws InterruptedException {
            switch (words[1]) {
                case "commit" -> consumer.commitSync();
                case "pause" -> isPaused = true;
                case "resume" -> isPaused = false;
                case "unsubscribe" -> consumer.unsubscribe();
                case "subscribe" -> consumer.subscribe(List.of(words[2]), this);
                case "rebalance" -> consumer.enforceRebalance(reason(words[2]));
                case "close" -> {
                    isClosed = true;
                    consumer.close();
                }
                default -> throw new IllegalArgumentException(words[1]);
            }
            emit(name, words[1], "");
        }

        private void closeQuietly() {
            try {
                consumer.close(CloseOptions.timeout(Duration.ZERO));
            } catch (RuntimeException again) {
                emitError(name, again); // the error of before, once more
            }
        }

        private void emitPartitions(String event, Collection<TopicPartition> partitions) {
            var numbers = new TreeSet<Integer>();
            partitions.forEach(each -> numbers.add(each.partition()));
            var of = consumer.groupMetadata();
            emit(name, event, ",\"partitions\":" + numbers + ",\"generation\":" + of.generationId() + ",\"member_id\":" + quoted(of.memberId()));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            emitPartitions("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            emitPartitions("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            emitPartitions("lost", partitions);
        }
    }
}
