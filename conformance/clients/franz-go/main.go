// franz-go against a broker: topics, produce, fetch by offset and by timestamp, groups, admin.
//
// Argument: HOST:PORT. Prints `ok` or `FAIL` for each step, then `N passed, N failed`; exit code 1 where a step failed. With the arguments
// `member BOOTSTRAP GROUP TOPIC` it is a member of a consumer group instead: see member.go.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	recordsPerPartition       = 200
	millisecondsBetweenRecord = 10
	stepLimit                 = 40 * time.Second
)

// codecs has one partition each; the partition after them is written without idempotence, acks=1.
var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()},
	{"gzip", kgo.GzipCompression()},
	{"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()},
	{"zstd", kgo.ZstdCompression()},
}

var (
	plainPartition = int32(len(codecs))
	partitions     = plainPartition + 1
)

// suite holds what the steps share.
type suite struct {
	bootstrap       string
	topic           string
	shortLivedTopic string
	group           string
	firstTimestamp  int64
	admin           *kadm.Client
	passed, failed  int
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == "member" {
		if err := member(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: franz-go HOST:PORT | member BOOTSTRAP GROUP TOPIC")
		os.Exit(2)
	}
	run := strconv.FormatInt(time.Now().UnixMilli(), 36)
	s := &suite{
		bootstrap:       os.Args[1],
		topic:           "franz-go-" + run,
		shortLivedTopic: "franz-go-short-lived-" + run,
		group:           "franz-go-group-" + run,
		// An hour ago, so that no retention limit removes what is written.
		firstTimestamp: time.Now().Add(-time.Hour).UnixMilli(),
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.bootstrap), kgo.RequestRetries(3))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	s.admin = kadm.NewClient(client)
	s.runSteps()
	fmt.Printf("%d passed, %d failed\n", s.passed, s.failed)
	if s.failed > 0 {
		os.Exit(1)
	}
}

func (s *suite) runSteps() {
	s.step("create a topic", s.createTopic)
	s.step("creating it again is refused", s.createTopicAgain)
	for partition, codec := range codecs {
		s.step("produce, idempotent, "+codec.name, func(ctx context.Context) error {
			return s.produce(ctx, int32(partition), kgo.ProducerBatchCompression(codec.codec))
		})
	}
	s.step("produce, not idempotent, acks=1", func(ctx context.Context) error {
		return s.produce(ctx, plainPartition, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
	})
	s.step("read every partition from offset 0", s.readEverything)
	s.step("read from an offset in the middle", func(ctx context.Context) error { return s.expectFrom(ctx, 0, 77) })
	s.step("read from the middle of a compressed batch", func(ctx context.Context) error { return s.expectFrom(ctx, 4, 123) })
	s.step("read in small fetches", func(ctx context.Context) error {
		return s.expectFrom(ctx, 0, 0, kgo.FetchMaxBytes(1000), kgo.FetchMaxPartitionBytes(1000))
	})
	s.step("first and last offsets, and that of the largest timestamp", s.firstAndLastOffsets)
	s.step("offsets for timestamps", s.offsetsByTimestamp)
	s.step("read from a timestamp", s.readFromTimestamp)
	s.step("an offset out of range is an error", func(ctx context.Context) error { return s.expectOutOfRange(ctx, 0, 100_000) })
	s.step("describe the topic", s.describeTopic)
	s.step("describe the topic's configuration", s.describeTopicConfiguration)
	s.step("describe the broker's configuration", s.describeBrokerConfiguration)
	s.step("alter the configuration incrementally", s.alterConfiguration)
	s.step("a bad configuration value is refused", s.alterConfigurationWithABadValue)
	s.step("describe the cluster", s.describeCluster)
	s.step("read in a group, and commit", s.readInAGroup)
	s.step("list and describe the group", s.listAndDescribeGroup)
	s.step("alter the group's offsets", s.alterGroupOffsets)
	s.step("delete the group's offsets", s.deleteGroupOffsets)
	s.step("delete the group", s.deleteGroup)
	s.step("create partitions", s.createPartitions)
	s.step("fewer partitions are refused", s.createFewerPartitions)
	s.step("delete records", s.deleteRecords)
	s.step("delete a topic", s.deleteTopic)
}

// step runs one step and counts it. A failed step does not stop the next.
func (s *suite) step(name string, action func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	start := time.Now()
	if err := action(ctx); err != nil {
		s.failed++
		fmt.Printf("FAIL %s: %v\n", name, err)
		return
	}
	s.passed++
	fmt.Printf("ok   %s (%.1f s)\n", name, time.Since(start).Seconds())
}

func expectEqual[T comparable](what string, got, wanted T) error {
	if got != wanted {
		return fmt.Errorf("%s: wanted %v, got %v", what, wanted, got)
	}
	return nil
}

func expectError(got, wanted error) error {
	if !errors.Is(got, wanted) {
		return fmt.Errorf("wanted the error %v, got %v", wanted, got)
	}
	return nil
}

// eventually repeats the call until it gives what is wanted: metadata reaches a broker a moment after a change is acknowledged.
func eventually[T comparable](wanted T, call func() (T, error)) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		got, err := call()
		if err == nil && got == wanted {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after 10 s: wanted %v, got %v, error %v", wanted, got, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// records makes records with every shape: with and without key, empty and null values, duplicate header keys, a null header value.
func (s *suite) records(partition int32) []*kgo.Record {
	var records []*kgo.Record
	for index := range recordsPerPartition {
		record := &kgo.Record{
			Topic:     s.topic,
			Partition: partition,
			Key:       fmt.Appendf(nil, "key-%d", index),
			Value:     fmt.Appendf(nil, "franz-go %d record %d, some text that a codec can make smaller, smaller", partition, index),
			Timestamp: time.UnixMilli(s.firstTimestamp + int64(index)*millisecondsBetweenRecord),
		}
		if index%7 == 0 {
			record.Key = nil
		}
		if index%11 == 3 {
			record.Value = []byte{}
		}
		if index%11 == 5 {
			record.Value = nil
		}
		if index%3 == 0 {
			record.Headers = []kgo.RecordHeader{
				{Key: "trace", Value: fmt.Appendf(nil, "first %d", index)},
				{Key: "trace", Value: []byte("second")},
				{Key: "empty", Value: []byte{}},
				{Key: "null", Value: nil},
			}
		}
		records = append(records, record)
	}
	return records
}

// produce sends the partition's records and checks the offset that each was given.
func (s *suite) produce(ctx context.Context, partition int32, options ...kgo.Opt) error {
	options = append(options,
		kgo.SeedBrokers(s.bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(20*time.Millisecond),
	)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	for index, result := range client.ProduceSync(ctx, s.records(partition)...) {
		if result.Err != nil {
			return result.Err
		}
		if err := expectEqual("offset", result.Record.Offset, int64(index)); err != nil {
			return err
		}
	}
	return nil
}

// read reads the partition from an offset to the end that it has now.
func (s *suite) read(ctx context.Context, partition int32, offset int64, options ...kgo.Opt) ([]*kgo.Record, error) {
	end, err := s.listed(s.admin.ListEndOffsets(ctx, s.topic))(partition)
	if err != nil {
		return nil, err
	}
	options = append(options,
		kgo.SeedBrokers(s.bootstrap),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: {partition: kgo.NewOffset().At(offset)}}),
	)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var got []*kgo.Record
	for offset+int64(len(got)) < end || offset > end {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, record := range fetches.Records() {
			if err := expectEqual("offset", record.Offset, offset+int64(len(got))); err != nil {
				return nil, err
			}
			got = append(got, record)
		}
	}
	return got, nil
}

// listed gives a function that finds one partition's offset in an answer about the whole topic.
func (s *suite) listed(offsets kadm.ListedOffsets, err error) func(partition int32) (int64, error) {
	return func(partition int32) (int64, error) {
		if err != nil {
			return 0, err
		}
		offset, ok := offsets.Lookup(s.topic, partition)
		if !ok {
			return 0, fmt.Errorf("partition %d was not listed", partition)
		}
		return offset.Offset, offset.Err
	}
}

// expectFrom reads a partition from an offset and compares all records with those that were sent.
func (s *suite) expectFrom(ctx context.Context, partition int32, offset int64, options ...kgo.Opt) error {
	got, err := s.read(ctx, partition, offset, options...)
	if err != nil {
		return err
	}
	wanted := s.records(partition)[offset:]
	if err := expectEqual("number of records", len(got), len(wanted)); err != nil {
		return err
	}
	for index := range wanted {
		if err := sameRecord(got[index], wanted[index]); err != nil {
			return fmt.Errorf("partition %d, record %d: %w", partition, index, err)
		}
	}
	return nil
}

// sameBytes tells nil from empty, as Kafka does.
func sameBytes(one, other []byte) bool {
	return bytes.Equal(one, other) && (one == nil) == (other == nil)
}

func sameRecord(got, wanted *kgo.Record) error {
	if !sameBytes(got.Key, wanted.Key) {
		return fmt.Errorf("key: wanted %q, got %q", wanted.Key, got.Key)
	}
	if !sameBytes(got.Value, wanted.Value) {
		return fmt.Errorf("value: wanted %q, got %q", wanted.Value, got.Value)
	}
	if !got.Timestamp.Equal(wanted.Timestamp) {
		return fmt.Errorf("timestamp: wanted %v, got %v", wanted.Timestamp, got.Timestamp)
	}
	if err := expectEqual("number of headers", len(got.Headers), len(wanted.Headers)); err != nil {
		return err
	}
	for index, header := range wanted.Headers {
		if got.Headers[index].Key != header.Key || !sameBytes(got.Headers[index].Value, header.Value) {
			return fmt.Errorf("header %d: wanted %v, got %v", index, header, got.Headers[index])
		}
	}
	return nil
}

func (s *suite) createTopic(ctx context.Context) error {
	retention := "86400000"
	if _, err := s.admin.CreateTopic(ctx, partitions, 1, map[string]*string{"retention.ms": &retention}, s.topic); err != nil {
		return err
	}
	return eventually(int(partitions), func() (int, error) { return s.partitionCount(ctx) })
}

func (s *suite) partitionCount(ctx context.Context) (int, error) {
	topics, err := s.admin.ListTopics(ctx, s.topic)
	if err != nil {
		return 0, err
	}
	return len(topics[s.topic].Partitions), topics[s.topic].Err
}

func (s *suite) createTopicAgain(ctx context.Context) error {
	_, err := s.admin.CreateTopic(ctx, 1, 1, nil, s.topic)
	return expectError(err, kerr.TopicAlreadyExists)
}

func (s *suite) readEverything(ctx context.Context) error {
	for partition := range partitions {
		if err := s.expectFrom(ctx, partition, 0); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) firstAndLastOffsets(ctx context.Context) error {
	start := s.listed(s.admin.ListStartOffsets(ctx, s.topic))
	end := s.listed(s.admin.ListEndOffsets(ctx, s.topic))
	largest := s.listed(s.admin.ListMaxTimestampOffsets(ctx, s.topic))
	for partition := range partitions {
		for _, check := range []struct {
			what   string
			offset func(int32) (int64, error)
			wanted int64
		}{
			{"earliest", start, 0},
			{"latest", end, recordsPerPartition},
			{"the largest timestamp's", largest, recordsPerPartition - 1},
		} {
			got, err := check.offset(partition)
			if err != nil {
				return err
			}
			if err := expectEqual(check.what, got, check.wanted); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *suite) offsetsByTimestamp(ctx context.Context) error {
	at50 := s.firstTimestamp + 50*millisecondsBetweenRecord
	for _, check := range []struct {
		what      string
		timestamp int64
		wanted    int64
	}{
		{"before the first record", s.firstTimestamp - 1, 0},
		{"at record 50", at50, 50},
		{"just after record 50", at50 + 1, 51},
		// Where no record is as late, franz-go gives the end of the partition.
		{"after the last record", s.firstTimestamp + recordsPerPartition*millisecondsBetweenRecord, recordsPerPartition},
	} {
		offset := s.listed(s.admin.ListOffsetsAfterMilli(ctx, check.timestamp, s.topic))
		for partition := range partitions {
			got, err := offset(partition)
			if err != nil {
				return err
			}
			if err := expectEqual(check.what, got, check.wanted); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *suite) readFromTimestamp(ctx context.Context) error {
	timestamp := s.firstTimestamp + 120*millisecondsBetweenRecord - 3
	offset, err := s.listed(s.admin.ListOffsetsAfterMilli(ctx, timestamp, s.topic))(2)
	if err != nil {
		return err
	}
	if err := expectEqual("offset", offset, 120); err != nil {
		return err
	}
	return s.expectFrom(ctx, 2, offset)
}

func (s *suite) expectOutOfRange(ctx context.Context, partition int32, offset int64) error {
	_, err := s.read(ctx, partition, offset)
	return expectError(err, kerr.OffsetOutOfRange)
}

func (s *suite) describeTopic(ctx context.Context) error {
	topics, err := s.admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	if !topics.Has(s.topic) {
		return fmt.Errorf("%s is not listed", s.topic)
	}
	for _, partition := range topics[s.topic].Partitions {
		if len(partition.Replicas) != 1 || len(partition.ISR) != 1 || partition.Leader != partition.Replicas[0] {
			return fmt.Errorf("leader %d, replicas %v, in-sync %v", partition.Leader, partition.Replicas, partition.ISR)
		}
	}
	return nil
}

func setting(configurations kadm.ResourceConfigs, err error, name string) (kadm.Config, error) {
	if err != nil {
		return kadm.Config{}, err
	}
	for _, configuration := range configurations {
		if configuration.Err != nil {
			return kadm.Config{}, configuration.Err
		}
		for _, config := range configuration.Configs {
			if config.Key == name {
				return config, nil
			}
		}
	}
	return kadm.Config{}, fmt.Errorf("%s is missing", name)
}

func (s *suite) topicSetting(ctx context.Context, name string) (string, error) {
	configurations, err := s.admin.DescribeTopicConfigs(ctx, s.topic)
	config, err := setting(configurations, err, name)
	return config.MaybeValue(), err
}

func (s *suite) describeTopicConfiguration(ctx context.Context) error {
	for name, wanted := range map[string]string{"cleanup.policy": "delete", "retention.ms": "86400000"} {
		got, err := s.topicSetting(ctx, name)
		if err != nil {
			return err
		}
		if err := expectEqual(name, got, wanted); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) describeBrokerConfiguration(ctx context.Context) error {
	brokers, err := s.admin.ListBrokers(ctx)
	if err != nil {
		return err
	}
	configurations, err := s.admin.DescribeBrokerConfigs(ctx, brokers.NodeIDs()[0])
	for _, name := range []string{"num.partitions", "log.dirs", "advertised.listeners"} {
		if _, err := setting(configurations, err, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) alter(ctx context.Context, operation kadm.IncrementalOp, name, value string) error {
	change := kadm.AlterConfig{Op: operation, Name: name, Value: &value}
	answers, err := s.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, s.topic)
	if err != nil {
		return err
	}
	return answers[0].Err
}

func (s *suite) alterConfiguration(ctx context.Context) error {
	defaultValue, err := s.topicSetting(ctx, "max.message.bytes")
	if err != nil {
		return err
	}
	for _, change := range []struct {
		operation           kadm.IncrementalOp
		name, value, wanted string
	}{
		{kadm.SetConfig, "max.message.bytes", "2000000", "2000000"},
		{kadm.DeleteConfig, "max.message.bytes", "", defaultValue},
		// Appending what a list has, and taking away what it has not, are allowed and change nothing.
		{kadm.AppendConfig, "cleanup.policy", "delete", "delete"},
		{kadm.SubtractConfig, "cleanup.policy", "compact", "delete"},
	} {
		if err := s.alter(ctx, change.operation, change.name, change.value); err != nil {
			return err
		}
		if err := eventually(change.wanted, func() (string, error) { return s.topicSetting(ctx, change.name) }); err != nil {
			return err
		}
	}
	retention, err := s.topicSetting(ctx, "retention.ms")
	if err != nil {
		return err
	}
	return expectEqual("retention.ms, which was not altered", retention, "86400000")
}

func (s *suite) alterConfigurationWithABadValue(ctx context.Context) error {
	return expectError(s.alter(ctx, kadm.SetConfig, "retention.ms", "abc"), kerr.InvalidConfig)
}

func (s *suite) describeCluster(ctx context.Context) error {
	metadata, err := s.admin.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	if metadata.Cluster == "" {
		return errors.New("no cluster id")
	}
	for _, broker := range metadata.Brokers {
		if broker.NodeID == metadata.Controller {
			return nil
		}
	}
	return fmt.Errorf("the controller %d is none of the brokers %v", metadata.Controller, metadata.Brokers)
}

func (s *suite) createPartitions(ctx context.Context) error {
	answers, err := s.admin.UpdatePartitions(ctx, int(partitions)+2, s.topic)
	if err != nil {
		return err
	}
	if err := answers.Error(); err != nil {
		return err
	}
	if err := eventually(int(partitions)+2, func() (int, error) { return s.partitionCount(ctx) }); err != nil {
		return err
	}
	return eventually(0, func() (int, error) {
		got, err := s.read(ctx, partitions+1, 0)
		return len(got), err
	})
}

func (s *suite) createFewerPartitions(ctx context.Context) error {
	answers, err := s.admin.UpdatePartitions(ctx, 1, s.topic)
	if err != nil {
		return err
	}
	return expectError(answers.Error(), kerr.InvalidPartitions)
}

func (s *suite) deleteRecords(ctx context.Context) error {
	var before kadm.Offsets
	before.AddOffset(s.topic, 1, 60, -1)
	answers, err := s.admin.DeleteRecords(ctx, before)
	if err != nil {
		return err
	}
	answer, _ := answers.Lookup(s.topic, 1)
	if answer.Err != nil {
		return answer.Err
	}
	if err := expectEqual("low watermark", answer.LowWatermark, 60); err != nil {
		return err
	}
	earliest, err := s.listed(s.admin.ListStartOffsets(ctx, s.topic))(1)
	if err != nil {
		return err
	}
	if err := expectEqual("earliest", earliest, 60); err != nil {
		return err
	}
	if err := s.expectFrom(ctx, 1, 60); err != nil {
		return err
	}
	return s.expectOutOfRange(ctx, 1, 10)
}

func (s *suite) deleteTopic(ctx context.Context) error {
	exists := func() (bool, error) {
		topics, err := s.admin.ListTopics(ctx)
		return topics.Has(s.shortLivedTopic), err
	}
	if _, err := s.admin.CreateTopic(ctx, 2, 1, nil, s.shortLivedTopic); err != nil {
		return err
	}
	if err := eventually(true, exists); err != nil {
		return err
	}
	if _, err := s.admin.DeleteTopic(ctx, s.shortLivedTopic); err != nil {
		return err
	}
	if err := eventually(false, exists); err != nil {
		return err
	}
	_, err := s.admin.DeleteTopic(ctx, s.shortLivedTopic)
	return expectError(err, kerr.UnknownTopicOrPartition)
}
