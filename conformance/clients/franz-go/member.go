package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const mostRecords = 100

// member is one of a consumer group: it commits after processing, and says so in the lines that clients/python/group_history.py tells of. It leaves
// the group and ends at SIGTERM.
func member(bootstrap, group, topic string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(time.Second),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			fmt.Println("assigned", strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Sorted(slices.Values(assigned[topic]))), " ", ","), "[]"))
		}),
	)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		process(ctx, client)
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	fmt.Println("left")
	return nil
}

// process polls once, tells of what came, and commits it.
func process(ctx context.Context, client *kgo.Client) {
	polling, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	fetches := client.PollRecords(polling, mostRecords)
	fetches.EachError(func(_ string, partition int32, err error) {
		if polling.Err() == nil {
			fmt.Println("error", partition, err)
		}
	})
	records := fetches.Records()
	next := map[int32]int64{}
	for _, record := range records {
		fmt.Println("record", record.Partition, record.Offset, string(record.Value))
		next[record.Partition] = record.Offset + 1
	}
	if len(records) == 0 {
		return
	}
	committing, cancelCommit := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancelCommit()
	if err := client.CommitRecords(committing, records...); err != nil {
		fmt.Fprintln(os.Stdout, "error", err)
		return
	}
	for partition, offset := range next {
		fmt.Println("commit", partition, offset)
	}
}
