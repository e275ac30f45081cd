package cloud

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
)

const (
	maxPages = 200 // of a list; a server that sends more is not trusted
	rounds   = 3   // attempts to read a list that changes meanwhile
)

type pageOf[T any] struct {
	items []T
	total number // of the whole list, if the answer counts it
	next  string // token of the next page; empty on the last one
}

// A listing is a list in pages. Each is requested by a P, a number or a token, and is part of an answer A, with items W.
type listing[P comparable, A, W any] struct {
	request   func(P) requests.AcsRequest
	needs     needs                      // as in call
	page      func(A) (pageOf[W], error) // the part of the list in an answer, or what the answer lacks
	check     func(W) error              // what is wrong with an item, or nil
	gone      []string                   // as in call
	shareable bool                       // as in call
}

// pages returns a function that reads a page. It bypasses the memory for a page that is read again because the list did not add up.
func pages[P comparable, A, W any](ctx context.Context, c *client, l listing[P, A, W]) func(P) (pageOf[W], error) {
	check := func(a A) error {
		p, err := l.page(a)
		if err != nil {
			return err
		}
		for _, w := range p.items {
			if err := l.check(w); err != nil {
				return err
			}
		}
		return nil
	}
	had := map[P]bool{}
	return func(at P) (pageOf[W], error) {
		a, err := read(ctx, c, call[A]{
			request: func() requests.AcsRequest { return l.request(at) }, needs: l.needs, check: check, gone: l.gone, sharing: l.shareable, afresh: had[at],
		})
		had[at] = true
		if err != nil {
			return pageOf[W]{}, err
		}
		p, err := l.page(a)
		if err == nil && c.atMost > 0 && p.total.n > c.atMost {
			err = fmt.Errorf("the list has %d items: more than %d are not asked for", p.total.n, c.atMost)
		}
		return p, err
	}
}

func counted[W any](total number, items []W) (pageOf[W], error) {
	if !total.ok {
		return pageOf[W]{}, lack("TotalCount")
	}
	return pageOf[W]{items: items, total: total}, nil
}

// linked returns a page of a counted list whose pages have tokens.
func linked[W any](total number, next text, items []W) (pageOf[W], error) {
	p, err := counted(total, items)
	p.next = string(next)
	return p, err
}

// numbered reads a list with numbered pages and a total. If it changes, or pages overlap, items may have moved, so the list is read again.
func numbered[T any](product, action string, id func(T) string, fetch func(page int) (pageOf[T], error)) ([]T, error) {
	for range rounds {
		list, whole, err := oneRound(product, action, id, fetch)
		if err != nil || whole {
			return sorted(list, id), err
		}
	}
	return nil, endless(product, action, short)
}

const short = "the list does not add up, however often it is read"

func endless(product, action, why string) error {
	return &Error{Product: product, Action: action, Code: codeBadAnswer, Message: why, Status: 200, kind: ErrUnavailable}
}

func oneRound[T any](product, action string, id func(T) string, fetch func(page int) (pageOf[T], error)) (list []T, whole bool, err error) {
	seen := map[string]bool{}
	total := int64(-1)
	for n := 1; n <= maxPages; n++ {
		p, err := fetch(n)
		if err != nil {
			return nil, false, err
		}
		if total < 0 {
			total = p.total.n
		}
		if p.total.n != total || len(p.items) == 0 && int64(len(list)) < total {
			return nil, false, nil
		}
		for _, v := range p.items {
			if seen[id(v)] {
				return nil, false, nil
			}
			seen[id(v)] = true
			list = append(list, v)
		}
		if int64(len(list)) >= total {
			return list, int64(len(list)) == total, nil
		}
	}
	return nil, false, endless(product, action, "the list does not end")
}

// chained reads a list whose pages name the next one, again if it is short.
func chained[T any](product, action string, fetch func(token string) (pageOf[T], error)) ([]T, error) {
	var list []T
	w := &walk{product: product, action: action}
	for !w.over {
		if w.token == "" {
			list = nil
		}
		p, err := fetch(w.token)
		if err == nil {
			list = append(list, p.items...)
			err = w.turn(p.next, len(list), p.total.n)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// A walk is the way through the pages of a list. It is not part of chained, which is compiled once per type.
type walk struct {
	product, action string

	token string   // of the page to read
	over  bool     // the list is whole
	seen  []string // tokens of this round
	most  int64    // items by the pages of this round
	round int
}

// turn goes on to the next page. A list with fewer items than a page counts begins again. With more items it is whole: TotalCount, "the total
// number of entries returned", may count those of one page.
func (w *walk) turn(next string, items int, total int64) error {
	w.most = max(w.most, total)
	w.token = next
	switch {
	case next == "" && int64(items) >= w.most:
		w.over = true
	case next == "":
		if w.round++; w.round == rounds {
			return endless(w.product, w.action, short)
		}
		w.seen, w.most = nil, 0
	case len(w.seen) == maxPages-1 || slices.Contains(w.seen, next):
		return endless(w.product, w.action, "the list does not end")
	default:
		w.seen = append(w.seen, next)
	}
	return nil
}

func values[W, T any](list []W, value func(W) T) []T {
	var out []T
	for _, w := range list {
		out = append(out, value(w))
	}
	return out
}

// sorted sorts a list and leaves out what was on two pages.
func sorted[T any](list []T, id func(T) string) (out []T) {
	order(list, func(a, b T) int { return cmp.Compare(id(a), id(b)) })
	for i := range list {
		if i == 0 || id(list[i]) != id(list[i-1]) {
			out = append(out, list[i])
		}
	}
	return out
}

// order sorts a list. Package slices would compile a sorter of 15 kB per type into each function program, and its CompactFunc 1.5 kB.
func order[T any](list []T, compare func(a, b T) int) {
	sort.Slice(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
