import type { MemberAnswer } from '../model/answers.ts'
import type { Election } from '../model/elections.ts'
import { ago, visible } from '../model/text.ts'
import type { PageProps } from './app.tsx'
import { now } from './clock.ts'
import { Node } from './name.tsx'

const ranks = { leader: 0, candidate: 1, allowed: 2 }

/** Lists the members: the leader first, then the candidates. */
export function Members({ controller, election }: PageProps & { readonly election: Election }) {
  const { members, elections } = controller.state
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
            {sorted.map(({ node_id, role, waiting, live, last_heartbeat_ms: heardMs, metadata }) => (
              <tr key={node_id} title={visible(JSON.stringify(metadata))}>
                <td>
                  <Node of={node_id} />
                </td>
                <td>{waiting ? 'waiting' : role}</td>
                <td class={live === false ? 'quiet' : ''}>{live === undefined ? '–' : live ? 'yes' : 'no'}</td>
                <td class="number">{heardMs === null ? 'not recently' : ago(nowMs - heardMs)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

/** The stream reports a change of leader before the members are reloaded. */
function roleOf({ node_id, role }: MemberAnswer, { leader }: Election): MemberAnswer['role'] {
  if (node_id === leader?.node) return 'leader'
  return role === 'leader' ? 'candidate' : role
}
