/**
 * The shuffle of Hadoop's MapReduce over relays.
 *
 * <pre>
 *   map outputs ── ShuffleHandler ──► Agent ──┐  pushes
 *   (a node)       (Hadoop's own)             ├─► relays ── one run ──► RelayShuffle ──► reduce
 *   map outputs ── ShuffleHandler ──► Agent ──┘                          (the reducer's process)
 *                                       ▲                                  │
 *                                       └─────── signed orders ────────────┘
 * </pre>
 *
 * <p>The cluster is unmodified. A job names {@link treefold.hadoop.RelayShuffle} as its shuffle, and each NodeManager has an
 * {@link treefold.hadoop.AgentService} among its auxiliary services. A reducer waits until all maps have finished, announces
 * its request to a relay, and sends an order to the agent of each node with map outputs. The agent reads them from its own
 * node's ShuffleHandler, and pushes them as sorted runs, which relays merge. If the job has a combiner of its own, a
 * {@link treefold.hadoop.Combiner} beside the relay takes the runs that the relay has gathered, runs the job's code over them,
 * and pushes the result for the reducer. If anything fails, or a job cannot be folded, the reducer uses Hadoop's own shuffle.
 * docs/shims.md tells which jobs fold.
 */
package treefold.hadoop;
