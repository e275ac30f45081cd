package machine

// Each scope is explored in seconds; together they cover every choice of the world.
var scopes = []scope{
	{
		name: "crash", engines: 2, classes: 1, steps: 2, plans: 1, attempts: 1, places: 1, budget: budget{crash: 2}, apart: true,
		diagnose: []Answer{Planned, Gone}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "crashes", engines: 1, classes: 1, steps: 1, plans: 1, attempts: 1, places: 1, budget: budget{crash: 7, newer: 2}, relook: true,
		diagnose: []Answer{Planned, Person}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "silence", engines: 2, classes: 1, steps: 2, plans: 2, attempts: 2, places: 1, budget: budget{stall: 1, silence: 2},
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "late answers", engines: 2, classes: 1, steps: 2, plans: 1, attempts: 1, places: 1, budget: budget{silence: 1, stray: 1, undo: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, results: []Result{Refused}, modes: []mode{good},
	},
	{
		name: "undo", engines: 2, classes: 1, steps: 2, plans: 2, attempts: 2, places: 2, budget: budget{undo: 1, crash: 1, newer: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "drift", engines: 1, classes: 1, steps: 2, plans: 2, attempts: 2, places: 1, budget: budget{undo: 1, silence: 1, drift: 1, pause: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven, Gone}, bars: []Answer{Clear, Drifted, Works, Gone}, results: []Result{Moved},
		modes: []mode{good},
	},
	{
		name: "policy undoes", engines: 2, classes: 1, steps: 1, plans: 3, attempts: 2, places: 3, budget: budget{crash: 1, deny: 1}, undoes: true,
		diagnose: []Answer{Planned, Superseded}, prove: []Answer{StillFails, NotYet, Superseded}, bars: []Answer{Clear, Works},
		modes: []mode{good, useless},
	},
	{
		name: "pause", engines: 1, classes: 1, steps: 2, plans: 2, attempts: 1, places: 1, budget: budget{pause: 1, cut: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "pause and stall", engines: 2, classes: 1, steps: 1, plans: 1, attempts: 1, places: 1, budget: budget{pause: 1, cut: 1, stall: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "answers and crashes", engines: 1, classes: 1, steps: 1, plans: 1, attempts: 1, places: 1, budget: budget{crash: 4, approve: 1},
		denied:   true,
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good, strict},
	},
	{
		name: "observe", engines: 1, classes: 1, steps: 2, plans: 2, attempts: 1, places: 2,
		budget: budget{observe: 1, approve: 1, withdraw: 1, cut: 1, silence: 1}, denied: true,
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good, strict},
	},
	{
		name: "observe and undo", engines: 1, classes: 1, steps: 2, plans: 2, attempts: 1, places: 2,
		budget: budget{observe: 1, undo: 1, pause: 1}, undoes: true,
		diagnose: []Answer{Planned}, prove: []Answer{StillFails}, bars: []Answer{Clear}, modes: []mode{useless},
	},
	{
		name: "a person stops", engines: 1, classes: 1, steps: 2, plans: 1, attempts: 1, places: 2, budget: budget{undo: 2, pause: 1, silence: 1},
		diagnose: []Answer{Planned, Failed}, prove: []Answer{Proven, Failed}, bars: []Answer{Clear, Failed}, results: []Result{Refused},
		modes: []mode{good, errors},
	},
	{
		name: "in doubt", engines: 1, classes: 1, steps: 2, plans: 1, attempts: 1, places: 2, budget: budget{undo: 2, silence: 1, drift: 2, newer: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear, Drifted}, results: []Result{Moved}, modes: []mode{good},
	},
	{
		name: "in doubt and undone by policy", engines: 1, classes: 1, steps: 1, plans: 3, attempts: 2, places: 3, budget: budget{silence: 1, drift: 1},
		undoes:   true,
		diagnose: []Answer{Planned}, prove: []Answer{StillFails, Proven}, bars: []Answer{Clear, Works}, modes: []mode{good, useless},
	},
	{
		name: "cases", engines: 1, classes: 1, steps: 1, plans: 3, attempts: 3, places: 3, budget: budget{undo: 2, newer: 1, old: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven, Changed}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "cases and policy", engines: 1, classes: 1, steps: 1, plans: 3, attempts: 2, places: 3, budget: budget{crash: 1, newer: 1}, undoes: true,
		diagnose: []Answer{Planned}, prove: []Answer{Proven, StillFails}, bars: []Answer{Clear}, modes: []mode{good, useless},
	},
	{
		name: "not due", engines: 1, classes: 2, steps: 1, plans: 1, attempts: 1, places: 2, budget: budget{crash: 1}, due: true,
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "not due and undo", engines: 2, classes: 1, steps: 2, plans: 2, attempts: 1, places: 1,
		budget: budget{crash: 1, pause: 1, undo: 1}, due: true,
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "approved without a place", engines: 1, classes: 1, steps: 2, plans: 1, attempts: 1, places: 0,
		budget: budget{approve: 1, lapse: 1, crash: 1}, claims: true,
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good, strict},
	},
	{
		name: "away", engines: 1, classes: 1, steps: 1, plans: 1, attempts: 1, places: 0, budget: budget{away: 1, crash: 1, newer: 2},
		diagnose: []Answer{Planned, Failed}, prove: []Answer{Proven, Failed}, bars: []Answer{Clear}, results: []Result{Refused},
		modes: []mode{good, errors, refused},
	},
	{
		name: "approval", engines: 1, classes: 1, steps: 2, plans: 2, attempts: 2, places: 1, budget: budget{approve: 1, undo: 1, newer: 1},
		denied: true, relook: true,
		diagnose: []Answer{Planned, Person}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good, strict},
	},
	{
		name: "approval and crash", engines: 2, classes: 1, steps: 2, plans: 1, attempts: 1, places: 1, budget: budget{approve: 1, crash: 1},
		denied: true, relook: true,
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good, strict},
	},
	{
		name: "policy", engines: 1, classes: 1, steps: 2, plans: 2, attempts: 1, places: 2, budget: budget{deny: 1, cut: 1, approve: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good, strict},
	},
	{
		name: "budget", engines: 1, classes: 1, steps: 2, plans: 2, attempts: 1, places: 0, budget: budget{lapse: 1, cut: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "errors", engines: 1, classes: 1, steps: 2, plans: 1, attempts: 1, places: 1, budget: budget{silence: 1, crash: 1, undo: 1},
		diagnose: []Answer{Planned, Failed, Unknown, NotYet, nonsense}, prove: []Answer{Proven, Failed, Unknown, NotYet, nonsense},
		bars:    []Answer{Clear, Failed, Unknown, nonsense},
		results: []Result{Refused}, modes: []mode{good, errors, unknown, refused, waiting},
	},
	{
		name: "attempts", engines: 1, classes: 1, steps: 2, plans: 3, attempts: 2, places: 2, budget: budget{drift: 1, undo: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven, StillFails, Changed, NotYet}, bars: []Answer{Clear}, results: []Result{Moved},
		modes: []mode{good, useless},
	},
	{
		name: "two steps that may be useless", engines: 1, classes: 1, steps: 2, plans: 1, attempts: 1, places: 1, budget: budget{crash: 1, undo: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven, StillFails}, bars: []Answer{Clear}, modes: []mode{good, useless},
	},
	{
		name: "classes", engines: 2, classes: 2, steps: 1, plans: 1, attempts: 1, places: 2, budget: budget{crash: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven, Superseded}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "classes and undo", engines: 1, classes: 2, steps: 1, plans: 1, attempts: 1, places: 2, budget: budget{silence: 1, undo: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "a class is blocked", engines: 1, classes: 2, steps: 1, plans: 1, attempts: 1, places: 2, budget: budget{undo: 1},
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, results: []Result{Refused}, modes: []mode{refused},
	},
	{
		name: "acknowledgements", engines: 2, classes: 1, steps: 1, plans: 1, attempts: 1, places: 1, budget: budget{lostAck: 1, crash: 1}, apart: true,
		diagnose: []Answer{Planned}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "full journal", engines: 1, classes: 1, steps: 1, plans: 1, attempts: 1, places: 1, budget: budget{full: 1, crash: 3}, relook: true,
		diagnose: []Answer{Planned, Person}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
	{
		name: "journal", engines: 2, classes: 1, steps: 2, plans: 1, attempts: 1, places: 1, budget: budget{full: 2, crash: 1},
		diagnose: []Answer{Planned, Gone}, prove: []Answer{Proven}, bars: []Answer{Clear}, modes: []mode{good},
	},
}
