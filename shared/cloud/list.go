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

// A paged reads the page of a P, with a pointer to each of its items, which are of type W.
type paged[P comparable, W any] func(at any) (pageOf[any], error)

func pages[P comparable, A, W any](ctx context.Context, c *client, l listing[P, A, W]) paged[P, W] {
	r := &pager{asking: asking{needs: l.needs, into: func() any { return new(A) }, gone: l.gone, sharing: l.shareable}, had: map[any]bool{}}
	r.request = func(at any) requests.AcsRequest { return l.request(at.(P)) }
	r.page = func(answer any) (pageOf[any], error) {
		part, err := l.page(*answer.(*A))
		p := pageOf[any]{items: make([]any, len(part.items)), total: part.total, next: part.next}
		for i := 0; err == nil && i < len(part.items); i++ {
			p.items[i] = &part.items[i]
			err = l.check(part.items[i])
		}
		return p, err
	}
	return func(at any) (pageOf[any], error) { return r.read(ctx, c, at) }
}

// A pager reads the pages of a list. Like an asking, it has no type, which saves code.
type pager struct {
	asking  asking
	request func(at any) requests.AcsRequest
	page    func(answer any) (pageOf[any], error) // checks the items, too
	had     map[any]bool
}

// read reads a page. It bypasses the memory for a page that is read again because the list did not add up.
func (r *pager) read(ctx context.Context, c *client, at any) (pageOf[any], error) {
	k := r.asking
	k.request, k.afresh = func() requests.AcsRequest { return r.request(at) }, r.had[at]
	k.check = func(answer any) error {
		_, err := r.page(answer)
		return err
	}
	answer, err := c.read(ctx, k)
	r.had[at] = true
	if err != nil {
		return pageOf[any]{}, err
	}
	p, err := r.page(answer)
	if err == nil && c.atMost > 0 && p.total.n > c.atMost {
		err = fmt.Errorf("the list has %d items: more than %d are not asked for", p.total.n, c.atMost)
	}
	return p, err
}

// itemsOf returns the items behind pointers.
func itemsOf[T any](pointers []any) (out []T) {
	for _, p := range pointers {
		out = append(out, *p.(*T))
	}
	return out
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
func numbered[T any](product, action string, id func(T) string, fetch paged[int, T]) ([]T, error) {
	for range rounds {
		list, whole, err := oneRound(product, action, func(item any) string { return id(*item.(*T)) }, fetch)
		if err != nil || whole {
			return sorted(itemsOf[T](list), id), err
		}
	}
	return nil, endless(product, action, short)
}

const short = "the list does not add up, however often it is read"

func endless(product, action, why string) error {
	return &Error{Product: product, Action: action, Code: codeBadAnswer, Message: why, Status: 200, kind: ErrUnavailable}
}

func oneRound(product, action string, id func(any) string, fetch func(page any) (pageOf[any], error)) (list []any, whole bool, err error) {
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
func chained[T any](product, action string, fetch paged[string, T]) ([]T, error) {
	list, err := follow(product, action, fetch)
	return itemsOf[T](list), err
}

func follow(product, action string, fetch func(token any) (pageOf[any], error)) (list []any, err error) {
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

// A walk is the way through the pages of a list.
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
	for _, i := range ranked(len(list), func(i int) string { return id(list[i]) }) {
		out = append(out, list[i])
	}
	return out
}

// ranked returns the indices of n items in the order of their IDs, without repetitions.
func ranked(n int, id func(i int) string) []int {
	rank := make([]int, n)
	for i := range rank {
		rank[i] = i
	}
	order(rank, func(a, b int) int { return cmp.Compare(id(a), id(b)) })
	return slices.CompactFunc(rank, func(a, b int) bool { return id(a) == id(b) })
}

// order sorts a list. Package slices would compile a sorter of 15 kB per type into each function program, and its CompactFunc 1.5 kB.
func order[T any](list []T, compare func(a, b T) int) {
	sort.Slice(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
