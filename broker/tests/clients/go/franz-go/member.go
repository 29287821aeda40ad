package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"wavetank/clients/suite"
)

// member of a consumer group, which commits what it has handled before it lets a rebalance go on.
type member struct {
	client  *kgo.Client
	cancel  context.CancelFunc
	ended   chan struct{}
	mutex   sync.Mutex
	owned   []int32
	values  []string
	changes int
	err     error
}

func join(group, topic string, options ...kgo.Opt) *member {
	joined, cancel := context.WithCancel(ctx)
	m := &member{cancel: cancel, ended: make(chan struct{})}
	taken := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		m.change(func() {
			m.owned = slices.DeleteFunc(m.owned, func(p int32) bool { return slices.Contains(partitions[topic], p) })
		})
	}
	m.client = client(append(options, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.BlockRebalanceOnPoll(),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.change(func() { m.owned = append(m.owned, partitions[topic]...) })
		}),
		kgo.OnPartitionsRevoked(taken), kgo.OnPartitionsLost(taken))...)
	go m.run(joined)
	return m
}

func (m *member) change(how func()) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	how()
	m.changes++
}

func (m *member) run(joined context.Context) {
	defer close(m.ended)
	for joined.Err() == nil {
		polling, done := context.WithTimeout(joined, 100*time.Millisecond)
		fetches := m.client.PollFetches(polling)
		done()
		m.mutex.Lock()
		fetches.EachRecord(func(r *kgo.Record) { m.values = append(m.values, string(r.Value)) })
		m.mutex.Unlock()
		if !fetches.Empty() {
			if err := m.client.CommitUncommittedOffsets(ctx); err != nil {
				m.change(func() { m.err = err })
			}
		}
		m.client.AllowRebalance()
	}
}

// close ends the member; unless it is static, it leaves the group.
func (m *member) close() {
	m.cancel()
	<-m.ended
	m.client.CloseAllowingRebalance()
	suite.Must(m.err)
}

// partitions it owns now, sorted.
func (m *member) partitions() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Sorted(slices.Values(m.owned))
}

// received are the values handed out to these members, sorted.
func received(members ...*member) []string {
	var all []string
	for _, m := range members {
		m.mutex.Lock()
		all = append(all, m.values...)
		m.mutex.Unlock()
	}
	slices.Sort(all)
	return all
}

// untilShared waits until every partition is owned by exactly one member, and every member has its equal share.
func untilShared(members ...*member) {
	shares := func() (all [][]int32) {
		for _, m := range members {
			all = append(all, m.partitions())
		}
		return all
	}
	suite.Until(fmt.Sprint(len(members), " members share the partitions"), func() bool {
		var owned []int32
		for _, share := range shares() {
			if len(share) != groupPartitions/len(members) {
				return false
			}
			owned = append(owned, share...)
		}
		slices.Sort(owned)
		return slices.Equal(owned, allPartitions())
	}, func() any { return shares() })
}
