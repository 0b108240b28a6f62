package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readInAGroup reads everything as the only member of a group, commits, leaves, and looks at what is committed.
func (s *suite) readInAGroup(ctx context.Context) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(s.bootstrap),
		kgo.ConsumerGroup(s.group),
		kgo.ConsumeTopics(s.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for count := 0; count < int(partitions)*recordsPerPartition; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		count += fetches.NumRecords()
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return err
	}
	for partition := range partitions {
		if err := s.expectCommitted(ctx, partition, recordsPerPartition); err != nil {
			return err
		}
	}
	return nil
}

// expectCommitted compares a partition's committed offset; -1 stands for none.
func (s *suite) expectCommitted(ctx context.Context, partition int32, wanted int64) error {
	offsets, err := s.admin.FetchOffsets(ctx, s.group)
	if err != nil {
		return err
	}
	got := int64(-1)
	if offset, ok := offsets.Lookup(s.topic, partition); ok {
		got = offset.At
	}
	return expectEqual("committed", got, wanted)
}

func (s *suite) isGroupListed(ctx context.Context) (bool, error) {
	listed, err := s.admin.ListGroups(ctx)
	_, ok := listed[s.group]
	return ok, err
}

func (s *suite) listAndDescribeGroup(ctx context.Context) error {
	if err := eventually(true, func() (bool, error) { return s.isGroupListed(ctx) }); err != nil {
		return err
	}
	return eventually("Empty", func() (string, error) {
		described, err := s.admin.DescribeGroups(ctx, s.group)
		return described[s.group].State, err
	})
}

func (s *suite) alterGroupOffsets(ctx context.Context) error {
	var offsets kadm.Offsets
	offsets.AddOffset(s.topic, 2, 17, -1)
	if err := s.admin.CommitAllOffsets(ctx, s.group, offsets); err != nil {
		return err
	}
	return s.expectCommitted(ctx, 2, 17)
}

func (s *suite) deleteGroupOffsets(ctx context.Context) error {
	var places kadm.TopicsSet
	places.Add(s.topic, 2)
	answers, err := s.admin.DeleteOffsets(ctx, s.group, places)
	if err != nil {
		return err
	}
	if err := answers.Error(); err != nil {
		return err
	}
	return s.expectCommitted(ctx, 2, -1)
}

func (s *suite) deleteGroup(ctx context.Context) error {
	if _, err := s.admin.DeleteGroup(ctx, s.group); err != nil {
		return err
	}
	if err := eventually(false, func() (bool, error) { return s.isGroupListed(ctx) }); err != nil {
		return err
	}
	answer, err := s.admin.DeleteGroup(ctx, s.group)
	if err == nil {
		err = answer.Err
	}
	return expectError(err, kerr.GroupIDNotFound)
}
