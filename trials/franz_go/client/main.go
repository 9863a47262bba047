// Command client does one thing with a Kafka cluster by franz-go, and prints a line for each step that others wait for.
//
//	client transact SERVERS TOPIC ID            commits a0 to a9, aborts b0 to b9, commits c0 to c9
//	client zombie SERVERS TOPIC ID              a second producer takes the id while the first has a transaction
//	client copy SERVERS GROUP FROM TO ID        copies a topic in transactions until it is ended, and commits offsets with its output
//	client member SERVERS GROUP TOPIC PROTOCOL  reads as a member of a group (classic or consumer) until it is ended
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	switch words := os.Args[2:]; os.Args[1] {
	case "transact":
		err = transact(ctx, words[0], words[1], words[2])
	case "zombie":
		err = zombie(ctx, words[0], words[1], words[2])
	case "copy":
		err = copyTopic(ctx, words[0], words[1], words[2], words[3], words[4])
	case "member":
		err = member(ctx, words[0], words[1], words[2], words[3])
	default:
		err = fmt.Errorf("no command %q", os.Args[1])
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func newProducer(servers, topic, id string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(servers), kgo.DefaultProduceTopic(topic), kgo.TransactionalID(id))
}

func send(ctx context.Context, client *kgo.Client, letter string) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	for number := range 10 {
		client.Produce(ctx, kgo.StringRecord(fmt.Sprintf("%s%d", letter, number)), nil)
	}
	return client.Flush(ctx)
}

func transact(ctx context.Context, servers, topic, id string) error {
	client, err := newProducer(servers, topic, id)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, step := range []struct {
		letter string
		end    kgo.TransactionEndTry
	}{{"a", kgo.TryCommit}, {"b", kgo.TryAbort}, {"c", kgo.TryCommit}} {
		if err := send(ctx, client, step.letter); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, step.end); err != nil {
			return err
		}
	}
	return nil
}

func zombie(ctx context.Context, servers, topic, id string) error {
	first, err := newProducer(servers, topic, id)
	if err != nil {
		return err
	}
	defer first.Close()
	if err := send(ctx, first, "a"); err != nil {
		return err
	}
	second, err := newProducer(servers, topic, id)
	if err != nil {
		return err
	}
	defer second.Close()
	if err := send(ctx, second, "b"); err != nil {
		return err
	}
	if err := second.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	err = first.EndTransaction(ctx, kgo.TryCommit)
	if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
		return fmt.Errorf("the first producer is not fenced: %v", err)
	}
	fmt.Println("fenced:", err)
	return nil
}

func copyTopic(ctx context.Context, servers, group, from, to, id string) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(servers), kgo.TransactionalID(id), kgo.ConsumerGroup(group), kgo.ConsumeTopics(from), kgo.DefaultProduceTopic(to),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for copied := 0; ctx.Err() == nil; {
		fetches := session.PollRecords(ctx, 20)
		if ctx.Err() != nil {
			break
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		if err := session.Begin(); err != nil {
			return err
		}
		records := fetches.Records()
		for _, record := range records {
			session.Produce(ctx, &kgo.Record{Key: record.Key, Value: record.Value}, nil)
		}
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil {
			return err
		}
		if committed {
			copied += len(records)
			fmt.Println("copied", copied)
		}
	}
	return nil
}

func member(ctx context.Context, servers, group, topic, protocol string) error {
	report := func(what string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { fmt.Println(what, partitions[topic]) }
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(servers), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.OnPartitionsAssigned(report("assigned")), kgo.OnPartitionsRevoked(report("revoked")), kgo.OnPartitionsLost(report("lost")),
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) { fmt.Println("read", string(record.Value)) })
	}
	client.Close()
	return nil
}
