import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Apache Kafka's own assignors. A line of input is a JSON array of cases: {"assignor": name, "topics": {name: [racks of each partition's replicas]},
 * "members": [{"id", "topics", "instance", "rack", "owned": {topic: [partitions]}, "generation", "userData": hexadecimal or null}], "runs": N,
 * "bytes": whether to give bytes}.
 * For each line it prints one object, whose "answers" are, a case each, {"assignment": {member: {topic: [partitions]}}, "userData": {member: what the
 * assignor sends after this assignment, in generation 7}, "subscriptions": {member: [the bytes of each version]}, "millis": [of each run]},
 * or {"failed": the exception that the assignor raised}.
 */
public class Assignors {
    record Member(String id, List<String> topics, String instance, String rack, Map<String, List<Integer>> owned, int generation, String userData) {
    }

    record Case(String assignor, Map<String, List<List<String>>> topics, List<Member> members, int runs, boolean bytes) {
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int GENERATION = 7;
    private static final Map<String, Supplier<ConsumerPartitionAssignor>> ASSIGNORS = Map.of(
        "range", RangeAssignor::new,
        "roundrobin", RoundRobinAssignor::new,
        "sticky", StickyAssignor::new,
        "cooperative-sticky", CooperativeStickyAssignor::new);

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<Map<String, Object>> answers = new ArrayList<>();
            for (Case one : JSON.readValue(line, Case[].class)) {
                try {
                    answers.add(answer(one));
                } catch (RuntimeException failed) {
                    answers.add(Map.of("failed", failed.toString()));
                }
            }
            System.out.println(JSON.writeValueAsString(Map.of("event", "answered", "answers", answers)));
        }
    }

    private static Map<String, Object> answer(Case one) {
        Cluster cluster = cluster(one.topics());
        Map<String, Assignment> assigned = Map.of();
        List<Double> millis = new ArrayList<>();
        for (int run = 0; run < one.runs(); run++) {
            Map<String, Subscription> subscriptions = new HashMap<>();
            one.members().forEach(member -> subscriptions.put(member.id(), subscription(member)));
            ConsumerPartitionAssignor assignor = ASSIGNORS.get(one.assignor()).get();
            long began = System.nanoTime();
            assigned = assignor.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
            millis.add((System.nanoTime() - began) / 1e6);
        }
        Map<String, Object> userData = new TreeMap<>();
        Map<String, Object> subscriptions = new TreeMap<>();
        for (Member member : one.bytes() ? one.members() : List.<Member>of()) {
            ConsumerPartitionAssignor assignor = ASSIGNORS.get(one.assignor()).get();
            assignor.onAssignment(assigned.get(member.id()), new ConsumerGroupMetadata("group", GENERATION, member.id(), Optional.empty()));
            userData.put(member.id(), hex(assignor.subscriptionUserData(Set.copyOf(member.topics()))));
            List<String> versions = new ArrayList<>();
            for (short version = 0; version <= 3; version++) {
                versions.add(hex(ConsumerProtocol.serializeSubscription(subscription(member), version)));
            }
            subscriptions.put(member.id(), versions);
        }
        Map<String, Object> assignment = new TreeMap<>();
        assigned.forEach((member, of) -> assignment.put(member, byTopic(of.partitions())));
        return Map.of("assignment", assignment, "userData", userData, "subscriptions", subscriptions, "millis", millis);
    }

    private static Cluster cluster(Map<String, List<List<String>>> topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.forEach((topic, racks) -> {
            for (int number = 0; number < racks.size(); number++) {
                List<String> of = racks.get(number).isEmpty() ? List.of("") : racks.get(number);
                Node[] replicas = of.stream()
                    .map(rack -> nodes.computeIfAbsent(rack, name -> new Node(nodes.size(), "host", 9092, name.isEmpty() ? null : name)))
                    .toArray(Node[]::new);
                partitions.add(new PartitionInfo(topic, number, replicas[0], replicas, replicas));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static Subscription subscription(Member member) {
        List<TopicPartition> owned = new ArrayList<>();
        member.owned().forEach((topic, numbers) -> numbers.forEach(number -> owned.add(new TopicPartition(topic, number))));
        ByteBuffer userData = member.userData() == null ? null : ByteBuffer.wrap(HexFormat.of().parseHex(member.userData()));
        Subscription subscription = new Subscription(member.topics(), userData, owned, member.generation(), Optional.ofNullable(member.rack()));
        subscription.setGroupInstanceId(Optional.ofNullable(member.instance()));
        return subscription;
    }

    private static Map<String, List<Integer>> byTopic(List<TopicPartition> partitions) {
        Map<String, List<Integer>> found = new TreeMap<>();
        partitions.forEach(each -> found.computeIfAbsent(each.topic(), topic -> new ArrayList<>()).add(each.partition()));
        found.values().forEach(numbers -> numbers.sort(null));
        return found;
    }

    private static String hex(ByteBuffer bytes) {
        if (bytes == null) {
            return "";
        }
        byte[] copied = new byte[bytes.remaining()];
        bytes.duplicate().get(copied);
        return HexFormat.of().formatHex(copied);
    }
}
