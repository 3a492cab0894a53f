import { argument, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { nameOf } from '../shared/arguments/values.ts'
import { metadataText, print, printJson, table, timestamp } from '../shared/output.ts'
import { listOf } from '../shared/service-answers.ts'
import { asking, groupPath } from '../shared/service.ts'
import { membersSettings } from './settings.ts'

/** Lists the members of an election. */
export async function members(name: string, flags: Sources['flags']): Promise<void> {
  const group = argument('ELECTION', name, nameOf)
  const settings = settingsFrom(membersSettings, flags)
  await asking(settings, async (ask) => {
    const listed = listOf(await ask({ method: 'GET', path: `${groupPath(group)}/members` }), 'members')
    if (settings.json) return listed.forEach(printJson)
    const rows = listed.map(({ node_id, role, live, last_heartbeat_ms, metadata }) => [
      String(node_id),
      String(role),
      typeof live === 'boolean' ? (live ? 'yes' : 'no') : 'unknown',
      typeof last_heartbeat_ms === 'number' ? timestamp(last_heartbeat_ms) : 'never',
      metadataText(metadata),
    ])
    const sorted = rows.toSorted(([one = ''], [other = '']) => (one < other ? -1 : 1))
    print(table(['NODE', 'ROLE', 'LIVE', 'LAST HEARD OF', 'METADATA'], sorted))
  })
}
