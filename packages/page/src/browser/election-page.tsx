import { useState } from 'preact/hooks'
import { remainingOf, type Election } from '../model/elections.ts'
import { finishedIn, jobIn } from '../model/jobs.ts'
import { isNobodyEligible, liveStandbysIn } from '../model/members.ts'
import { assignmentIn, groupOfSeat } from '../model/shards.ts'
import { ago, duration, endings, visible } from '../model/text.ts'
import type { Terms } from '../model/terms.ts'
import { Actions } from './actions.tsx'
import type { PageProps } from './app.tsx'
import { now } from './clock.ts'
import { Span } from './election-list.tsx'
import { Job } from './job-details.tsx'
import { LeaseBar } from './lease-bar.tsx'
import { Members } from './members.tsx'
import { Name, Node } from './name.tsx'
import { Pairs } from './pairs.tsx'
import { Shards } from './shards.tsx'
import { useTicks } from './ticks.ts'
import { TimeLine } from './time-line.tsx'
import { exactly, moment } from './times.ts'

const mostChanges = 20

interface ElectionPageProps extends PageProps {
  readonly id: string
}

/** The page of one election. */
export function ElectionPage({ controller, id }: ElectionPageProps) {
  const { elections, isMissing, identity } = controller.state
  const [spanMs, setSpan] = useState<number>(900_000)
  const election = elections.byId.get(id)
  const nowMs = now().wallMs + elections.aheadMs
  const seat = groupOfSeat(id)
  return (
    <article class="one" aria-labelledby="election">
      <p class="back">
        <a href="#/">← All elections</a>
      </p>
      <h1 id="election">
        <Name of={id} />
      </h1>
      {seat && (
        <p class="back">
          <a href={`#/groups/${encodeURIComponent(seat.group)}`}>
            Seat {seat.seat} of <Name of={seat.group} />
          </a>
        </p>
      )}
      {isMissing ? (
        <p class="empty">There is no such election, or it was removed.</p>
      ) : !election ? (
        <p class="empty">Asking…</p>
      ) : (
        <>
          <ElectionFacts controller={controller} election={election} />
          {identity?.admin && <Actions key={id} controller={controller} election={election} />}
          <Shards key={id} controller={controller} election={election} />
          <section class="card" aria-labelledby="led">
            <div class="tools">
              <h2 id="led">Who led when</h2>
              <Span of={spanMs} onChange={setSpan} />
            </div>
            <TimeLine controller={controller} terms={election.terms} spanMs={spanMs} />
          </section>
          <div class="columns">
            <div>
              <Members key={id} controller={controller} election={election} />
              <LeaderDetails election={election} nowMs={nowMs} />
            </div>
            <Changes terms={election.terms} nowMs={nowMs} />
          </div>
        </>
      )}
    </article>
  )
}

function ElectionFacts({ controller, election }: PageProps & { readonly election: Election }) {
  useTicks(1_000)
  const { leader, previous, freeAtMs, policy, allowedNodes, highestTerm } = election
  const { elections, link, members } = controller.state
  const nowMs = now().wallMs + elections.aheadMs
  const finished = leader ? undefined : finishedIn(previous, nowMs)
  const standbys = members && liveStandbysIn(members, leader?.node)
  const heldMs = freeAtMs === undefined ? 0 : freeAtMs - now().monotonicMs
  return (
    <section class={leader || finished ? 'standing' : 'standing free'} aria-label="How it stands">
      <p class="who" aria-live="polite">
        {leader ? (
          <>
            <Node of={leader.node} /> <span class="verb">leads</span>
          </>
        ) : (
          <>
            <span class={finished ? 'quiet' : 'nobody'}>{finishedText(finished)}</span>
            {previous && (
              <span class="verb">
                ; <Node of={previous.node} /> led last
              </span>
            )}
          </>
        )}
      </p>
      {!leader && !finished && members && isNobodyEligible(members) && (
        <p class="quiet">No live candidate is eligible, so nobody leads until one is.</p>
      )}
      {leader && <LeaseBar lease={leader} isBehind={link.kind === 'behind'} />}
      <dl class="facts">
        <Fact name="Term">{leader?.term ?? highestTerm}</Fact>
        {leader && (
          <>
            <Fact name="Leads since" title={exactly(leader.sinceMs)}>
              {moment(leader.sinceMs, nowMs)} ({duration(Math.max(0, controller.knownMs - leader.sinceMs))})
            </Fact>
            <Fact name="Last renewed" title={exactly(leader.renewedMs)}>
              {ago(nowMs - leader.renewedMs)}
            </Fact>
            <Fact name="Lease">{duration(leader.ttlMs)}</Fact>
          </>
        )}
        {standbys && <Fact name="Live standbys">{standbys.length}</Fact>}
        {heldMs > 0 && <Fact name="Nobody may lead for">{duration(heldMs)}</Fact>}
        {policy && (
          <Fact name="Leases allowed">
            {duration(policy.min_ttl_ms)} to {duration(policy.max_ttl_ms)}
          </Fact>
        )}
        {allowedNodes && <Fact name="Nodes allowed">{allowedNodes.length}</Fact>}
      </dl>
      {leader && remainingOf(leader, now().monotonicMs).ms === 0 && (
        <p class="quiet">By this clock the lease should have expired. The service has not confirmed that yet.</p>
      )}
    </section>
  )
}

function finishedText(finished: ReturnType<typeof finishedIn>): string {
  if (finished === undefined) return 'Nobody leads'
  return finished === 'done' ? 'Done, so nobody leads' : 'No longer scheduled, so nobody leads'
}

function Fact(props: { readonly name: string; readonly title?: string; readonly children: preact.ComponentChildren }) {
  return (
    <div title={props.title}>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  )
}

/** The last changes as text, newest first. This is the accessible version of the timeline. */
function Changes({ terms, nowMs }: { readonly terms: Terms; readonly nowMs: number }) {
  const changes = terms
    .flatMap(({ term, node, fromMs, toMs, end }) => [
      ...(fromMs === undefined ? [] : [{ atMs: fromMs, order: term * 2, node, term, end: undefined }]),
      ...(end === undefined || toMs === undefined ? [] : [{ atMs: toMs, order: term * 2 + 1, node, term, end }]),
    ])
    .toSorted((one, other) => other.order - one.order)
    .slice(0, mostChanges)
  return (
    <section class="card" aria-labelledby="changes">
      <h2 id="changes">Last changes</h2>
      {changes.length === 0 ? (
        <p class="quiet">Nobody has led yet.</p>
      ) : (
        <ol class="changes">
          {changes.map(({ atMs, order, node, term, end }) => (
            <li key={order}>
              <time dateTime={exactly(atMs)} title={exactly(atMs)}>
                {moment(atMs, nowMs)}
              </time>
              <span class={`what ${end ?? 'elected'}`}>{wordOf(end)}</span>
              <Node of={node} />
              <span class="quiet" title={end && `The term ${endings[end]}.`}>
                term {term}
              </span>
            </li>
          ))}
        </ol>
      )}
      <p class="quiet">Changes that the server has kept, and those since this page was opened.</p>
    </section>
  )
}

function wordOf(end: Terms[number]['end']): string {
  if (end === undefined) return 'elected'
  return { resigned: 'handed over', expired: 'expired', deleted: 'deleted', unseen: 'last seen' }[end]
}

/** Shows the leader's metadata, and the checkpoint or job state that it leaves to its successor. */
function LeaderDetails({ election, nowMs }: { readonly election: Election; readonly nowMs: number }) {
  const lease = election.leader ?? election.previous
  const checkpoint = lease?.checkpoint ?? ''
  const job = checkpoint === '' ? undefined : jobIn(checkpoint)
  return (
    <>
      {lease && (
        <section class="card" aria-labelledby="metadata">
          <h2 id="metadata">Metadata</h2>
          <Pairs of={lease.metadata} none={`${visible(lease.node)} has published no metadata.`} />
        </section>
      )}
      {job && <Job job={job} nowMs={nowMs} leaderTerm={election.leader?.term} />}
      {checkpoint !== '' && !job && !assignmentIn(checkpoint) && (
        <section class="card" aria-labelledby="checkpoint">
          <h2 id="checkpoint">Checkpoint</h2>
          <pre class="text">{visible(checkpoint)}</pre>
          <p class="quiet">A text that each leader leaves to its successor.</p>
        </section>
      )}
    </>
  )
}
