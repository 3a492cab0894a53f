// Package election is a client of the Tenure election service. It uses only the standard library.
//
// A program campaigns for a group. While it leads, it renews its lease. Its work has a context that is canceled when
// leadership ends:
//
// 	client, err := election.New("http://127.0.0.1:7070", election.Options{})
// 	...
// 	err = client.Run(ctx, "payments", func(ctx context.Context, lease *election.Lease) error {
// 		return work(ctx, lease.Term())
// 	})
//
// # What is guaranteed
//
// Two clients never hold the lease of one group at the same time, as long as clocks run at nearly the same speed. A lease
// counts from the moment at which its request was sent, on a clock that nobody can set. On Linux the clock also counts
// while the machine sleeps. Leadership ends [Options.Margin] before the lease does, whether or not the service answers.
// [Lease.Held] reads that clock at every call, so it is correct even after the process was paused.
//
// # What is not guaranteed
//
// A process that is paused between its last check of the lease and a write still sends that write when it resumes. A
// virtual machine that is paused together with all its clocks does not notice the pause. Only fencing helps: send
// [Lease.Term] with every write, and let the resource refuse lower terms.
//
// # Unknown outcomes
//
// Each call has a deadline. A campaign whose answer was lost is sent again with the same attempt and gets its own lease
// again. That lease counts from the first request. A renewal without an answer extends nothing.
package election
