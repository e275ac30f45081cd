package cloud

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

// recalled is how many answers the memory of all looks holds at most.
const recalled = 16

// said is a good answer.
type said struct {
	is   any // a pointer to it; nobody changes it
	read event.Read
}

// A memory holds good answers by what was asked. Who asks what somebody else is asking
// already waits for that answer; an error is its own asker's alone.
type memory struct {
	keep time.Duration // how long an answer is given again; zero: always
	most int           // answers at once; zero: any number

	mu      sync.Mutex
	answers map[string]*answering
}

// An answering is a question that somebody asks, or has asked.
type answering struct {
	done chan struct{} // closed when said and good hold
	at   time.Time     // when it was asked
	said said
	good bool
}

func newMemory(keep time.Duration, most int) *memory {
	return &memory{keep: keep, most: most, answers: map[string]*answering{}}
}

// recall returns the answer that the memory has, or asks. If ctx ends before that, e says so. Who
// has waited in vain once asks for itself: where the cloud gives no answers, nobody waits for others'.
func (m *memory) recall(ctx context.Context, asked string, e *Error, ask func() (said, *Error)) (said, *Error) {
	for waited := false; ; waited = true {
		a, mine := m.answering(asked)
		switch {
		case mine:
			return m.answer(a, asked, ask)
		case waited && !a.ended():
			return ask()
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return said{}, e.ended(ctx, ErrUnavailable, codeNotSent, "")
		}
		if a.good {
			return a.said, nil
		}
	}
}

// ended reports whether somebody has an answer, or has given up.
func (a *answering) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// answering returns what is known of a question; mine says that the caller has to ask it.
func (m *memory) answering(asked string) (a *answering, mine bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if a = m.answers[asked]; a != nil && (m.keep == 0 || now.Sub(a.at) < m.keep) {
		return a, false
	}
	if m.most > 0 && len(m.answers) >= m.most {
		maps.DeleteFunc(m.answers, func(_ string, a *answering) bool { return now.Sub(a.at) >= m.keep })
	}
	a = &answering{done: make(chan struct{}), at: now}
	if m.most == 0 || len(m.answers) < m.most {
		m.answers[asked] = a
	}
	return a, true
}

// answer asks, and tells those who wait.
func (m *memory) answer(a *answering, asked string, ask func() (said, *Error)) (said, *Error) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !a.good && m.answers[asked] == a {
			delete(m.answers, asked)
		}
		close(a.done)
	}()
	answer, failure := ask()
	a.said, a.good = answer, failure == nil
	return answer, failure
}

// forget lets the next one ask anew.
func (m *memory) forget(asked string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.answers, asked)
}
