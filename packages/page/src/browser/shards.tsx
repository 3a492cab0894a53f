import { useMemo, useState } from 'preact/hooks'
import type { Election } from '../model/elections.ts'
import {
  assignmentIn,
  countKinds,
  kindTexts,
  moved,
  shardsOf,
  shardText,
  type ShardOwner,
  type ShownShard,
  type ShownShards,
} from '../model/shards.ts'
import { visible } from '../model/text.ts'
import type { PageProps } from './app.tsx'
import { Name } from './name.tsx'

/** The shards of a group: a grid colored by owner, and the members with their loads. Nothing for other elections. */
export function Shards({ controller, election }: PageProps & { readonly election: Election }) {
  const { members } = controller.state
  const checkpoint = (election.leader ?? election.previous)?.checkpoint ?? ''
  const assignment = useMemo(() => assignmentIn(checkpoint), [checkpoint])
  const shown = useMemo(() => assignment && shardsOf(assignment, members ?? undefined), [assignment, members])
  const [chosen, choose] = useState<string | undefined>(undefined)
  if (!shown) return null
  // A node that has left can no longer be chosen.
  const chosenOwner = shown.owners.find(({ node }) => node === chosen)?.node
  const owned = shown.shards.filter(({ kind }) => kind === 'owned').length
  return (
    <section class="card" aria-labelledby="shards">
      <div class="tools">
        <h2 id="shards">Shards</h2>
        <p class="quiet" role="status">
          {owned} of {shown.shards.length} owned
          {!election.leader && '. There is no coordinator, so none can move'}
        </p>
      </div>
      <Grid shown={shown} chosen={chosenOwner} hasCoordinator={election.leader !== undefined} />
      <p class="legend">
        {countKinds(shown).map(({ kind, count }) => (
          <span key={kind}>
            <span class={`shard ${kind} e0`} aria-hidden="true" /> {kindTexts[kind]} {count}
          </span>
        ))}
      </p>
      <Owners owners={shown.owners} chosen={chosenOwner} onChoose={choose} />
    </section>
  )
}

interface GridProps {
  readonly shown: ShownShards
  /** The node whose shards are shown in full color. Undefined for all. */
  readonly chosen: string | undefined
  readonly hasCoordinator: boolean
}

const idOf = (number: number) => `shard-${number}`

/** All shards in order. It is one stop for the Tab key, and the arrow keys move within it. */
function Grid({ shown: { shards, isNamed }, chosen, hasCoordinator }: GridProps) {
  const [at, go] = useState(0)
  const [pointed, point] = useState<number | undefined>(undefined)
  const [isFocused, focus] = useState(false)
  const told = shards[pointed ?? (isFocused ? at : -1)]
  const numberAt = (event: Event) => {
    const { shard } = (event.target as HTMLElement).closest<HTMLElement>('[data-shard]')?.dataset ?? {}
    return shard === undefined ? undefined : Number(shard)
  }
  return (
    <>
      <div
        class={isNamed ? 'shards named' : 'shards'}
        role="listbox"
        aria-labelledby="shards"
        aria-activedescendant={idOf(at)}
        tabIndex={0}
        onFocus={() => focus(true)}
        onBlur={() => focus(false)}
        onPointerMove={(event) => point(numberAt(event))}
        onPointerLeave={() => point(undefined)}
        onClick={(event) => go(numberAt(event) ?? at)}
        onKeyDown={(event) => {
          const columns = getComputedStyle(event.currentTarget).gridTemplateColumns.split(' ').length
          const to = moved(at, event.key, { columns, count: shards.length })
          if (to === undefined) return
          event.preventDefault()
          go(to)
          document.getElementById(idOf(to))?.scrollIntoView({ block: 'nearest' })
        }}
      >
        {shards.map((shard) => (
          <Cell
            key={shard.number}
            shard={shard}
            text={shardText(shard, hasCoordinator)}
            isCurrent={shard.number === at}
            isPale={chosen !== undefined && shard.owner !== chosen}
          />
        ))}
      </div>
      <p class="told">{told ? shardText(told, hasCoordinator) : '\u00a0'}</p>
    </>
  )
}

interface CellProps {
  readonly shard: ShownShard
  readonly text: string
  readonly isCurrent: boolean
  readonly isPale: boolean
}

function Cell({ shard: { number, label, kind, mark }, text, isCurrent, isPale }: CellProps) {
  // A change of one shard or of the focus draws only the cells that it affects.
  return useMemo(
    () => (
      <span
        id={idOf(number)}
        class={`shard ${kind} ${mark} ${isPale ? 'pale' : ''}`}
        role="option"
        aria-label={text}
        aria-selected={isCurrent}
        title={text}
        data-shard={number}
      >
        {label}
      </span>
    ),
    [number, label, kind, mark, text, isCurrent, isPale],
  )
}

interface OwnersProps {
  readonly owners: readonly ShardOwner[]
  readonly chosen: string | undefined
  onChoose(node: string | undefined): void
}

/** The members with their loads. Choosing one shows only its shards in full color. */
function Owners({ owners, chosen, onChoose }: OwnersProps) {
  if (owners.length === 0) return <p class="quiet">No member is present.</p>
  return (
    <ul class="owners" aria-label="Members and their shards">
      {owners.map(({ node, mark, owned, revoked }) => {
        const load = `${owned} ${owned === 1 ? 'shard' : 'shards'}`
        const leaving = revoked > 0 ? `, ${revoked} in motion` : ''
        return (
          <li key={node}>
            <button
              type="button"
              aria-pressed={node === chosen}
              aria-label={`${visible(node)}: ${load}${leaving}`}
              title={`Show only the shards of ${visible(node)}`}
              onClick={() => onChoose(node === chosen ? undefined : node)}
            >
              <span class={`shard owned ${mark}`} aria-hidden="true" />
              <Name of={node} />
              <span class="load">
                {owned}
                {leaving}
              </span>
            </button>
          </li>
        )
      })}
    </ul>
  )
}
