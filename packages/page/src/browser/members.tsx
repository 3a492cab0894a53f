import { useState } from 'preact/hooks'
import type { MemberAnswer } from '../model/answers.ts'
import type { Election, ShownLease } from '../model/elections.ts'
import { canHandOverTo, handOverText, type HandOver } from '../model/hand-over.ts'
import { ago, duration, visible } from '../model/text.ts'
import type { PageProps } from './app.tsx'
import { now } from './clock.ts'
import { Confirm } from './confirm.tsx'
import { Node } from './name.tsx'
import { useTicks } from './ticks.ts'

const ranks = { leader: 0, candidate: 1, allowed: 2 }

/**
 * Lists the members: the leader first, then the candidates. An administrator can hand over to a candidate that is live.
 */
export function Members({ controller, election }: PageProps & { readonly election: Election }) {
  const { members, elections, identity } = controller.state
  const [asked, ask] = useState<{ readonly to: string; readonly leader: ShownLease } | undefined>(undefined)
  const [handOver, setHandOver] = useState<HandOver | undefined>(undefined)
  const mayHandOver = (member: MemberAnswer) => identity?.admin === true && canHandOverTo(member, election)
  const nowMs = now().wallMs + elections.aheadMs
  const known = members?.map((member) => ({ ...member, role: roleOf(member, election) })) ?? []
  const sorted = known.toSorted((one, other) => ranks[one.role] - ranks[other.role])
  return (
    <section class="card" aria-labelledby="members">
      <h2 id="members">Members</h2>
      {members === null ? (
        <p class="quiet">The other candidates are unknown. Candidates that run with “present” are listed here.</p>
      ) : sorted.length === 0 ? (
        <p class="quiet">There are no members at the moment.</p>
      ) : (
        <table class="takes-part">
          <caption class="heard">Members and their roles</caption>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Role</th>
              <th scope="col">Live</th>
              <th scope="col" class="number">
                Last seen
              </th>
            </tr>
          </thead>
          <tbody>
            {sorted.map((member) => {
              const {
                node_id,
                role,
                waiting,
                live,
                last_heartbeat_ms: heardMs,
                metadata,
                generation,
                eligible,
              } = member
              return (
                <tr key={node_id} title={visible(JSON.stringify(metadata))}>
                  <td>
                    <div class="acted-on">
                      <Node of={node_id} />
                      {mayHandOver(member) && (
                        <button
                          type="button"
                          aria-label={`Hand over to ${visible(node_id)}…`}
                          onClick={() => election.leader && ask({ to: node_id, leader: election.leader })}
                        >
                          Hand over…
                        </button>
                      )}
                    </div>
                    {generation !== undefined && <div class="offer">generation {generation}</div>}
                  </td>
                  <td>
                    {waiting ? 'waiting' : role}
                    {eligible === false && <div class="offer bad">not eligible</div>}
                  </td>
                  <td class={live === false ? 'quiet' : ''}>{live === undefined ? '–' : live ? 'yes' : 'no'}</td>
                  <td class="number">{heardMs === null ? 'not recently' : ago(nowMs - heardMs)}</td>
                </tr>
              )
            })}
          </tbody>
        </table>
      )}
      {handOver && <Progress of={handOver} election={election} />}
      {asked && (
        <Confirm
          id={election.id}
          question={{
            title: `Hand over to ${visible(asked.to)}?`,
            text: textOf(asked.to, asked.leader),
            yes: 'Hand over',
            run: async () => {
              const { to, leader } = asked
              // The leader may have renewed since the question was asked.
              const { endsAtMs: freeAtMs } = controller.state.elections.byId.get(election.id)?.leader ?? leader
              await controller.resign(election.id, leader.node, leader.term, to)
              setHandOver({ to, term: leader.term, freeAtMs })
            },
          }}
          onClose={() => ask(undefined)}
        />
      )}
    </section>
  )
}

function textOf(to: string, { node, term, ttlMs }: ShownLease): string {
  const [leader, candidate] = [visible(node), visible(to)]
  const when = `Nobody else can lead before its lease of ${duration(ttlMs)} would have expired, and then ${candidate} comes first.`
  return `${leader} stops leading in term ${term} when it next renews. ${when} If ${candidate} does not take over at once, another candidate may lead.`
}

/** Shows how far a handover has got, and its outcome. */
function Progress({ of, election }: { readonly of: HandOver; readonly election: Election }) {
  useTicks(500)
  return (
    <p class="hand-over" role="status">
      {handOverText(of, election, now().monotonicMs)}
    </p>
  )
}

/** The stream reports a change of leader before the members are reloaded. */
function roleOf({ node_id, role }: MemberAnswer, { leader }: Election): MemberAnswer['role'] {
  if (node_id === leader?.node) return 'leader'
  return role === 'leader' ? 'candidate' : role
}
