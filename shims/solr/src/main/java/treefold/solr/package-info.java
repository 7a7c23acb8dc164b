/**
 * Solr's distributed search over relays.
 *
 * <pre>
 *   coordinator ──phase 1──► Stand ──────── the query, by HTTP ────────► Agent ──► shard
 *   (Solr)                     ▲                                           │      (Solr)
 *                              └── one folded reply ◄── relays ◄── pushes ─┘
 *   coordinator ──phase 2──► Stand ──── ids, only to their owners ───────────────► shards
 * </pre>
 *
 * <p>The coordinator and the shards are unmodified. The coordinator is given one shard, the {@link treefold.solr.Stand}. An
 * {@link treefold.solr.Agent} beside each shard asks it, and pushes its reply as {@code Rows} (documents with their sort
 * keys, kept by {@code top-k}), {@code Counts} (numFound and facets, added by {@code sum-lines}) and the highest score
 * ({@code max}). docs/shims.md tells which queries are folded, and which are refused.
 */
package treefold.solr;
