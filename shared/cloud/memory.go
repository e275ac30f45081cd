package cloud

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

const recalled = 16

type said struct {
	is   any // a pointer to it; nobody changes it
	read event.Read
}

// A memory holds good answers by question. Callers with the same question wait for the first one's answer; an error goes only to its caller.
type memory struct {
	keep time.Duration // how long an answer is reused; zero: always
	most int           // most answers; zero: any number

	mu      sync.Mutex
	answers map[string]*answering
}

type answering struct {
	done chan struct{} // closed when said and good are set
	at   time.Time     // when it was asked
	said said
	good bool
}

func newMemory(keep time.Duration, most int) *memory {
	return &memory{keep: keep, most: most, answers: map[string]*answering{}}
}

// recall returns the answer in the memory, or asks. If ctx ends first, it returns e with that reason. A caller that has waited in vain once
// asks itself: callers must not queue behind each other when the cloud does not answer.
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

func (a *answering) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// answering returns the entry of a question; mine says that the caller must ask it.
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

func (m *memory) drop(asked string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.answers, asked)
}
