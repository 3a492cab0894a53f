import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Election } from '../model/elections.ts'
import { visible } from '../model/text.ts'
import type { Shown } from './app.tsx'
import { LeaseBar } from './lease-bar.tsx'
import { Name, Node } from './name.tsx'
import { SmallTimeLine, spans } from './time-line.tsx'

/** All elections, a page of them at a time. */
export function ElectionList({ controller }: Shown) {
  const { elections, isListed, isSearching, search, pages, next, identity } = controller.state
  const [spanMs, setSpan] = useState<number>(900_000)
  const shown = [...elections.byId.values()]
  const leaderless = shown.filter(({ leader }) => !leader).length
  return (
    <section aria-label="Elections">
      <div class="tools">
        <h1>Elections</h1>
        <Search controller={controller} />
        <p class="count" role="status">
          {isListed && countText(shown.length, pages.length > 1 || next !== undefined, leaderless)}
        </p>
        <Span of={spanMs} onChange={setSpan} />
      </div>
      {isListed && shown.length === 0 ? (
        <Empty search={search} isSearching={isSearching} isService={identity?.admin === true} />
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
                Candidates
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

function countText(count: number, isPart: boolean, leaderless: number): string {
  const all = `${count} ${count === 1 ? 'election' : 'elections'}${isPart ? ' on this page' : ''}`
  return leaderless === 0 ? all : `${all}, ${leaderless} without a leader`
}

function Row({ controller, election, spanMs }: Shown & { readonly election: Election; readonly spanMs: number }) {
  const { id, leader, previous, highestTerm, terms } = election
  const isBehind = controller.state.link.kind === 'behind'
  // Renewals are many: a row whose election has not changed is not drawn again.
  return useMemo(
    () => (
      <tr class={leader ? '' : 'free'}>
        <th scope="row">
          <a class="to" href={`#/groups/${encodeURIComponent(id)}`}>
            <Name of={id} />
          </a>
        </th>
        <td class="leader">
          {leader ? (
            <Node of={leader.node} colour={controller.palette.of(leader.node)} />
          ) : (
            <span class="nobody" title={previous && `${visible(previous.node)} led last`}>
              nobody leads
            </span>
          )}
        </td>
        <td class="number term">
          <span class="label">term </span>
          {leader?.term ?? highestTerm}
        </td>
        <td class="lease-cell">{leader ? <LeaseBar lease={leader} isBehind={isBehind} /> : ''}</td>
        <td class="number members">
          <Waiting election={election} />
        </td>
        <td class="lines">
          <SmallTimeLine controller={controller} terms={terms} spanMs={spanMs} />
        </td>
      </tr>
    ),
    [election, spanMs, isBehind],
  )
}

/** Candidates beside the leader; of these, those that wait in line this very moment. */
function Waiting({ election: { candidates, waiting } }: { readonly election: Election }) {
  if (candidates === undefined) return <span class="quiet">–</span>
  const text = `${candidates} ${candidates === 1 ? 'candidate' : 'candidates'} beside the leader, ${waiting ?? 0} in line now`
  return (
    <span title={text}>
      <span class="heard">{text}</span>
      <span aria-hidden="true">
        {candidates}
        {waiting ? <span class="in-line"> · {waiting} in line</span> : ''}
      </span>
    </span>
  )
}

function Search({ controller }: Shown) {
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
      <span>Time-line: last</span>
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
  /** The one that looks may campaign here. */
  readonly isService: boolean
}

function Empty({ search, isSearching, isService }: EmptyProps) {
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
      <p>There is no election yet{isService ? '. The first campaign creates one:' : ', or none that you may see.'}</p>
      {isService && (
        <pre>{`curl -d '{"node_id":"a","lease_ttl_ms":15000}' -H 'content-type: application/json' \\\n  ${url}`}</pre>
      )}
      <p class="quiet">One that is created appears here by itself.</p>
    </div>
  )
}
