import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;

/**
 * Members of groups, each a consumer with a thread of its own, in one JVM. Each line of input is a JSON object: `do`, and `member` (its name).
 * `start` (settings; topics, or pattern), `subscribe` (topics), `unsubscribe`, `sleep` (seconds), `slow` (seconds that the next revocation
 * takes), `enforce` (reason or null), `close`; `remove` (servers, group, reason or null) removes all members of a group as an administrator.
 * Reports: started, assignment (partitions), done (do), failed.
 */
public class Members {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        report("", "ready", Map.of());
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, Object> command = JSON.readValue(line, Map.class);
            String name = (String) command.get("member");
            switch ((String) command.get("do")) {
                case "start" -> MEMBERS.put(name, new Member(name, command));
                case "remove" -> new Thread(() -> remove(name, command)).start();
                default -> MEMBERS.get(name).commands.add(command);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    static synchronized void report(String member, String event, Map<String, Object> more) {
        var all = new LinkedHashMap<String, Object>(Map.of("member", member, "event", event));
        all.putAll(more);
        try {
            System.out.println(JSON.writeValueAsString(all));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        System.out.flush();
    }

    private static void remove(String name, Map<String, Object> command) {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) command.get("servers")))) {
            var options = new RemoveMembersFromConsumerGroupOptions();
            if (command.get("reason") != null) {
                options.reason((String) command.get("reason"));
            }
            admin.removeMembersFromConsumerGroup((String) command.get("group"), options).all().get();
            report(name, "done", Map.of("do", "remove"));
        } catch (Exception error) {
            report(name, "failed", Map.of("error", error.toString()));
        }
    }

    private static final class Member implements ConsumerRebalanceListener, Runnable {
        final LinkedBlockingQueue<Map<String, Object>> commands = new LinkedBlockingQueue<>();
        private final String name;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private List<String> known = List.of();
        private double slowSeconds;
        private boolean isClosed;

        Member(String name, Map<String, Object> command) {
            this.name = name;
            var settings = new Properties();
            settings.putAll((Map<String, String>) command.get("settings"));
            settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            consumer = new KafkaConsumer<>(settings);
            String pattern = (String) command.get("pattern");
            if (pattern == null) {
                consumer.subscribe((List<String>) command.get("topics"), this);
            } else if ("consumer".equals(settings.get("group.protocol"))) {
                consumer.subscribe(new SubscriptionPattern(pattern), this);
            } else {
                consumer.subscribe(Pattern.compile(pattern), this);
            }
            report(name, "started", Map.of());
            new Thread(this, name).start();
        }

        @Override
        public void run() {
            while (!isClosed) {
                try {
                    var command = commands.poll();
                    if (command != null) {
                        obey(command);
                        report(name, "done", Map.of("do", command.get("do")));
                    } else {
                        consumer.poll(Duration.ofMillis(100));
                    }
                } catch (IllegalStateException notSubscribed) {
                    pause(100);
                } catch (Exception error) {
                    report(name, "failed", Map.of("error", error.toString()));
                    isClosed = true;
                    close();
                }
                if (!isClosed) {
                    reportAssignment();
                }
            }
        }

        private void obey(Map<String, Object> command) throws InterruptedException {
            switch ((String) command.get("do")) {
                case "subscribe" -> consumer.subscribe((List<String>) command.get("topics"), this);
                case "unsubscribe" -> consumer.unsubscribe();
                case "sleep" -> Thread.sleep((long) (seconds(command) * 1000));
                case "slow" -> slowSeconds = seconds(command);
                case "enforce" -> enforce((String) command.get("reason"));
                case "close" -> {
                    isClosed = true;
                    consumer.close();
                }
                default -> throw new IllegalArgumentException("" + command);
            }
        }

        private void enforce(String reason) {
            if (reason == null) {
                consumer.enforceRebalance();
            } else {
                consumer.enforceRebalance(reason);
            }
        }

        private static double seconds(Map<String, Object> command) {
            return ((Number) command.get("seconds")).doubleValue();
        }

        private void close() {
            try {
                consumer.close();
            } catch (RuntimeException again) {
                report(name, "failed", Map.of("error", again.toString()));
            }
        }

        private void reportAssignment() {
            var owned = new TreeSet<String>();
            consumer.assignment().forEach(each -> owned.add(each.topic() + "-" + each.partition()));
            List<String> now = new ArrayList<>(owned);
            if (!now.equals(known)) {
                known = now;
                report(name, "assignment", Map.of("partitions", now));
            }
        }

        private static void pause(long milliseconds) {
            try {
                Thread.sleep(milliseconds);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            double seconds = slowSeconds;
            slowSeconds = 0;
            pause((long) (seconds * 1000));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            // the assignment is reported after the poll
        }
    }
}
