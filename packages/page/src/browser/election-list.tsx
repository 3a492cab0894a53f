import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Election } from '../model/elections.ts'
import { failureOf, finishedIn, jobIn } from '../model/jobs.ts'
import { shardsNote } from '../model/shards.ts'
import { visible } from '../model/text.ts'
import type { PageProps } from './app.tsx'
import { now } from './clock.ts'
import { LeaseBar } from './lease-bar.tsx'
import { Name, Node } from './name.tsx'
import { SmallTimeLine, spans } from './time-line.tsx'

/** The list of elections, one page at a time. */
export function ElectionList({ controller }: PageProps) {
  const { elections, isListed, isSearching, search, pages, next, total, identity } = controller.state
  const [spanMs, setSpan] = useState<number>(900_000)
  const shown = [...elections.byId.values()]
  const nowMs = now().wallMs + elections.aheadMs
  const leaderless = shown.filter(({ leader, previous }) => !leader && !finishedIn(previous, nowMs)).length
  return (
    <section aria-label="Elections">
      <div class="tools">
        <h1>Elections</h1>
        <Search controller={controller} />
        <p class="count" role="status">
          {isListed && countText(shown.length, pages.length > 1 || next !== undefined, total, leaderless)}
        </p>
        <Span of={spanMs} onChange={setSpan} />
      </div>
      {isListed && shown.length === 0 ? (
        <Empty search={search} isSearching={isSearching} mayCampaign={identity?.admin === true} />
      ) : (
        <table class={isSearching ? 'elections searching' : 'elections'} aria-busy={!isListed}>
          <caption class="heard">Elections and who leads them</caption>
          <thead>
            <tr>
              <th scope="col">Election</th>
              <th scope="col">Leader</th>
              <th scope="col" class="number">
                Term
              </th>
              <th scope="col">Lease left</th>
              <th scope="col" class="number">
                Standbys
              </th>
              <th scope="col" class="lines">
                Who led
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((election) => (
              <Row key={election.id} controller={controller} election={election} spanMs={spanMs} />
            ))}
          </tbody>
        </table>
      )}
      {(pages.length > 1 || next !== undefined) && (
        <nav class="pages" aria-label="Pages">
          <button type="button" disabled={pages.length < 2} onClick={() => controller.previousPage()}>
            Previous
          </button>
          <span>Page {pages.length}</span>
          <button type="button" disabled={next === undefined} onClick={() => controller.nextPage()}>
            Next
          </button>
        </nav>
      )}
    </section>
  )
}

function countText(count: number, isPart: boolean, total: number | undefined, leaderless: number): string {
  const elections = (number: number) => `${number} ${number === 1 ? 'election' : 'elections'}`
  const ofAll = total === undefined ? '' : `${elections(total)}, `
  const all = isPart ? `${ofAll}${total === undefined ? elections(count) : count} on this page` : elections(count)
  return leaderless === 0 ? all : `${all}, ${leaderless} without a leader`
}

function Row({ controller, election, spanMs }: PageProps & { readonly election: Election; readonly spanMs: number }) {
  const { id, leader, previous, highestTerm, terms } = election
  const isBehind = controller.state.link.kind === 'behind'
  const finished = leader ? undefined : finishedIn(previous, now().wallMs + controller.state.elections.aheadMs)
  // Renewals are frequent, so a row whose election has not changed is not drawn again.
  return useMemo(
    () => (
      <tr class={leader ? '' : finished ? 'finished' : 'free'}>
        <th scope="row">
          <a class="to" href={`#/groups/${encodeURIComponent(id)}`}>
            <Name of={id} />
          </a>
          <FailedRun election={election} />
          <ShardsNote election={election} />
        </th>
        <td class="leader">
          {leader ? (
            <Node of={leader.node} />
          ) : (
            <span class={finished ? 'quiet' : 'nobody'} title={previous && `${visible(previous.node)} led last`}>
              {finished ?? 'nobody leads'}
            </span>
          )}
        </td>
        <td class="number term">
          <span class="label">term </span>
          {leader?.term ?? highestTerm}
        </td>
        <td class="lease-cell">{leader ? <LeaseBar lease={leader} isBehind={isBehind} /> : ''}</td>
        <td class="number members">
          <Standbys election={election} />
        </td>
        <td class="lines">
          <SmallTimeLine controller={controller} terms={terms} spanMs={spanMs} />
        </td>
      </tr>
    ),
    [election, spanMs, isBehind, finished],
  )
}

/** Shows that the last run of a job failed. */
function FailedRun({ election: { leader, previous } }: { readonly election: Election }) {
  const job = jobIn((leader ?? previous)?.checkpoint ?? '')
  const failure = job && failureOf(job, leader?.term)
  if (failure === undefined) return null
  const text = { failed: 'last run failed', 'timed-out': 'last run timed out', lost: 'last run was cut off' }[failure]
  return <span class="failed-run">{text ?? failure}</span>
}

/** Shows that the election is a group of shards, and whether all of them have an owner. */
function ShardsNote({ election: { leader, previous } }: { readonly election: Election }) {
  const note = shardsNote(leader ?? previous)
  return note ? <span class={note.isBad ? 'note bad' : 'note'}>{note.text}</span> : null
}

/** Shows how many nodes are ready to take over, and how many were active recently but may be gone. */
function Standbys({ election: { candidates, standbys } }: { readonly election: Election }) {
  if (candidates === undefined || standbys === undefined) return <span class="quiet">–</span>
  const silent = Math.max(0, candidates - standbys)
  const text = `${standbys} live ${standbys === 1 ? 'standby' : 'standbys'}${silent > 0 ? `, ${silent} silent` : ''}`
  return (
    <span title={text}>
      <span class="heard">{text}</span>
      <span aria-hidden="true">
        {standbys}
        <span class="label"> {standbys === 1 ? 'standby' : 'standbys'}</span>
        {silent > 0 ? <span class="silent"> · {silent} silent</span> : ''}
      </span>
    </span>
  )
}

function Search({ controller }: PageProps) {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey) return
      event.preventDefault()
      field.current?.focus()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
  return (
    <span class="search" role="search">
      <input
        ref={field}
        type="search"
        aria-label="Search elections by name"
        placeholder="Search by name"
        spellcheck={false}
        autocomplete="off"
        value={controller.state.search}
        onInput={(event) => controller.search(event.currentTarget.value)}
      />
      <kbd aria-hidden="true">/</kbd>
    </span>
  )
}

export function Span({ of, onChange }: { readonly of: number; readonly onChange: (ms: number) => void }) {
  return (
    <label class="span">
      <span>Timeline: last</span>
      <select value={of} onChange={(event) => onChange(Number(event.currentTarget.value))}>
        {spans.map(({ ms, text }) => (
          <option key={ms} value={ms}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}

interface EmptyProps {
  readonly search: string
  readonly isSearching: boolean
  /** Whether the viewer is an administrator of an election service and may campaign in any election. */
  readonly mayCampaign: boolean
}

function Empty({ search, isSearching, mayCampaign }: EmptyProps) {
  if (isSearching) return <p class="empty">Searching…</p>
  if (search.trim() !== '') {
    return (
      <p class="empty">
        No election has “<Name of={search.trim()} />” in its name.
      </p>
    )
  }
  const url = new URL('v1/groups/first/campaign', location.href).href
  return (
    <div class="empty">
      <p>
        There are no elections yet{mayCampaign ? '. The first campaign creates one:' : ', or none that you may see.'}
      </p>
      {mayCampaign && (
        <pre>{`curl -d '{"node_id":"a","lease_ttl_ms":15000}' -H 'content-type: application/json' \\\n  ${url}`}</pre>
      )}
      <p class="quiet">New elections appear here automatically.</p>
    </div>
  )
}
