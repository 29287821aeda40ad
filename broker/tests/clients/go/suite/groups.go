package suite

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// GroupPartitions is how many partitions a topic has that is read by a group.
const GroupPartitions = 6

// AllPartitions are their numbers.
func AllPartitions() []int32 { return []int32{0, 1, 2, 3, 4, 5} }

// Everywhere is an offset for each of them.
func Everywhere(offset int64) []int64 { return slices.Repeat([]int64{offset}, GroupPartitions) }

// Member of a group: what a client's own member tells of itself.
type Member struct {
	mutex   sync.Mutex
	owned   []int32
	values  []string
	changes int
	err     error
	// Close ends it; unless it is static, it leaves the group.
	Close func()
}

// Given says that the member owns these partitions from now on.
func (m *Member) Given(partitions ...int32) {
	m.change(func() { m.owned = append(m.owned, partitions...) })
}

// Taken says that it owns them no more.
func (m *Member) Taken(partitions ...int32) {
	m.change(func() {
		m.owned = slices.DeleteFunc(m.owned, func(p int32) bool { return slices.Contains(partitions, p) })
	})
}

func (m *Member) change(how func()) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	how()
	m.changes++
}

// Received keeps a value that was handed out.
func (m *Member) Received(value string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.values = append(m.values, value)
}

// Met keeps an error that nobody asked for.
func (m *Member) Met(err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.err = err
}

func (m *Member) met() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.err
}

// Leave closes it, and fails the case if it met an error.
func (m *Member) Leave() {
	m.Close()
	Must(m.err)
}

// Partitions that it owns now, sorted.
func (m *Member) Partitions() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Sorted(slices.Values(m.owned))
}

// Received by all of these members, sorted.
func received(members ...*Member) []string {
	var all []string
	for _, m := range members {
		m.mutex.Lock()
		all = append(all, m.values...)
		m.mutex.Unlock()
	}
	slices.Sort(all)
	return all
}

// shared bounds a rebalance: it may wait for a member for as long as the rebalance timeout, which is a minute by default, and
// a cooperative one has two rounds. sarama 1.61.1 uses it up when its handlers commit all the time, as these do: it joins
// again under a lock that their commits share.
const shared = 3 * time.Minute

// UntilShared waits until every partition is owned by exactly one member, and every member has its equal share.
func UntilShared(members ...*Member) {
	shares := func() (all [][]int32) {
		for _, m := range members {
			all = append(all, m.Partitions())
		}
		return all
	}
	Within(shared, fmt.Sprint(len(members), " members share the partitions"), func() bool {
		var owned []int32
		for _, share := range shares() {
			if len(share) != GroupPartitions/len(members) {
				return false
			}
			owned = append(owned, share...)
		}
		slices.Sort(owned)
		return slices.Equal(owned, AllPartitions())
	}, func() any {
		// A member that met an error has left, or will: that says more than who owns what.
		for at, m := range members {
			if err := m.met(); err != nil {
				return fmt.Sprintf("%v; member %d met: %v", shares(), at+1, err)
			}
		}
		return shares()
	})
}

// UntilCommitted waits until this offset is committed in every partition.
func UntilCommitted(committed func() []int64, offset int64) {
	Until(fmt.Sprintf("offset %d is committed everywhere", offset),
		func() bool { return slices.Equal(committed(), Everywhere(offset)) }, func() any { return committed() })
}

// Group is what a client can do with one group and the topic that it reads.
type Group struct {
	Join func() *Member
	// Send puts so many records into every partition of the topic; returns their values.
	Send func(name string, count int) []string
	// Committed offsets, by partition; -1 is none.
	Committed func() []int64
}

// Rebalance: two members, a third joins, the first leaves, all leave, a new one goes on where they were. Records come all the while.
func Rebalance(g Group) {
	sent := g.Send("a", 20)
	a, b := g.Join(), g.Join()
	UntilShared(a, b)
	sent = append(sent, g.Send("b", 20)...)
	c := g.Join()
	sent = append(sent, g.Send("c", 20)...)
	UntilShared(a, b, c)
	sent = append(sent, g.Send("d", 20)...)
	a.Leave()
	sent = append(sent, g.Send("e", 20)...)
	UntilShared(b, c)
	Until("all records are handed out", func() bool { return len(received(a, b, c)) >= len(sent) },
		func() any { return len(received(a, b, c)) })
	UntilCommitted(g.Committed, 100)
	b.Leave()
	c.Leave()
	slices.Sort(sent)
	Expect("records, each handed out once", received(a, b, c), sent)

	later := g.Send("f", 1)
	d := g.Join()
	Until("a new member goes on", func() bool { return len(received(d)) >= len(later) }, func() any { return received(d) })
	UntilCommitted(g.Committed, 101)
	d.Leave()
	Expect("records of the new member", received(d), later)
}

// StaticMember that comes back within its session finds its partitions, and nobody notices. generation is that of a member.
func StaticMember(join func(instance string) (member *Member, generation func() int32)) {
	first, generationOfFirst := join("one")
	second, _ := join("two")
	UntilShared(first, second)
	time.Sleep(time.Second)
	generation, changes, owned := generationOfFirst(), first.changes, second.Partitions()
	second.Leave()
	again, generationOfAgain := join("two")
	Until("the member that came back owns its partitions",
		func() bool { return slices.Equal(again.Partitions(), owned) }, func() any { return again.Partitions() })
	time.Sleep(2 * time.Second)
	Expect("generation of the one that came back", generationOfAgain(), generation)
	Expect("generation of the other", generationOfFirst(), generation)
	Expect("rebalances of the other meanwhile", first.changes-changes, 0)
	first.Leave()
	again.Leave()
}
