package machine

import (
	"time"
)

// The model of the world: a bucket with one document, a journal, control and budgets, a hand that writes, failures and a person's
// request that are delivered until they are answered, and two engines that perform effects one at a time. Time stays at t0; a jump
// moves everything else back.

var t0 = time.Unix(1_000_000, 0).UTC()

const nonsense Answer = "nonsense" // of a hand that lies

const proof = 7 * time.Minute // of all plans of the model

type kind uint8

const (
	plain    kind = iota // of an engine or of time: no choice
	ends                 // a look finds that the failure is gone, or a matter for a person
	plans                // a look finds a plan
	clears               // a look finds that an undo may begin
	proves               // a look proves
	fails                // a call fails
	puzzles              // a look finds nothing out
	delays               // a look answers "not yet"
	repeats              // the same failure comes again
	changes              // somebody changes the object
	writes               // the hand makes the step
	refuses              // the hand makes nothing, by an error
	moves                // the hand makes nothing: the target has moved
	releases             // a person or time ends a pause, a lack of places or of permission
	person               // a person does something else
	faults               // a crash, a delay, a loss or a duplicate
)

type action struct {
	kind         kind
	engine       int8 // -1: no engine
	what, detail string
}

type engine struct {
	start   uint8 // chooses its name
	stalled bool  // its heartbeat is old, though it goes on
	running bool
	sent    bool // its order is at the hand
	lost    bool // the acknowledgement of its Store is lost
	person  bool
	again   bool
	class   uint8
	event   uint8
	rev     uint8
	at      uint8
	list    int32 // effects
	doc     int32
}

type failure struct {
	event uint8
	acked bool
	again bool // a person has answered, and that is not yet acknowledged
	old   bool // it is from before the case's end
}

// An out is an order that the hand has, or that is on its way: it may write.
type out struct {
	id, class, attempt, step uint8
	undo                     bool
	left                     int16 // seconds until it expires; it may write for quiet after that
}

// An intent keeps every objection since an order was stored.
type intent struct {
	stored         bool
	bad            uint8
	class, attempt uint8
	undo, person   bool
}

const (
	underPause uint8 = 1 << iota
	notAllowed
	overBudget
	notJournaled
)

var badNames = []string{
	"an order under a pause", "an order that neither policy nor approval allows", "an order over the budget", "an order that is not journaled",
}

type control struct {
	paused, denied bool
	observed       bool  // nothing is to be written, whoever approves it
	approval       uint8 // attempt of the first class that a person has approved
	taken          [2]uint8
}

type world struct {
	control
	doc     int32 // in the bucket
	rev     uint8
	eng     [2]engine
	failed  [2]failure
	request failure // of a person to undo
	made    [2]uint16
	planned [2]uint8 // plans that have begun
	orders  [3]out
	intents [8]intent
	owed    uint64 // entries that were stored and not appended
	places  uint8
	checked [2]bool  // all targets of the undo were found as the steps left them
	back    bool     // a person has undone a fix of the first class
	older   [2]uint8 // attempts up to this number belong to ended cases
	agreed  uint8    // the same; it stays when the approval is withdrawn
	gone    bool
	full    bool     // the journal takes no record
	begun   [2]uint8 // runs in a row that have begun and not rested
	cut     struct { // a leader that is cut off, and its answers
		on  bool
		rev uint8
		control
	}
	stray struct { // an answer that is late, or comes again
		id   uint8
		done bool // false: refused
	}
	late struct { // a pending write of a document that may land
		on  bool
		rev uint8
		doc int32
	}
	left budget
}

type budget struct {
	crash, stall, silence, stray, lostAck, newer, old, pause, cut, approve, withdraw, undo, deny, observe, lapse, drift, full, away uint8
}

type scope struct {
	name     string
	engines  int
	classes  int
	steps    int
	plans    uint8 // numbers of attempts that a class gets to
	attempts int   // that the policy permits
	places   uint8
	budget   budget
	denied   bool // the policy permits no plan
	undoes   bool // the policy undoes fixes that did not work
	apart    bool // other things may happen between a report and the Store that follows
	relook   bool // hours pass while nothing waits
	due      bool // steps are not due yet
	claims   bool // a claim has no place left
	diagnose []Answer
	prove    []Answer
	bars     []Answer
	results  []Result
	modes    []mode
}

// A mode is an environment in which every case must still come to its end.
type mode struct {
	name string
	may  []kind
}

var (
	good    = mode{"all goes well", []kind{plain, ends, plans, clears, proves, writes, releases}}
	errors  = mode{"all calls fail", []kind{plain, fails, refuses, releases}}
	unknown = mode{"nothing is found out", []kind{plain, puzzles, refuses, releases}}
	refused = mode{"all orders are refused", []kind{plain, plans, clears, refuses, proves, releases}}
	useless = mode{"no plan works", []kind{plain, plans, clears, writes, repeats, releases}}
	waiting = mode{"it is never yet", []kind{plain, clears, writes, delays, releases}}
	strict  = mode{"the policy permits nothing", []kind{plain, plans, clears, writes, proves}}
)
