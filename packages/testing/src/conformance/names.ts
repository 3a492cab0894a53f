import { createHash } from 'node:crypto'
import type { Case } from './case.ts'
import { check, granted, same, show } from './scene.ts'

/** An election name is any text. Two different names must never share a record. */
export const namesCases: Case[] = [
  {
    name: 'elections with unusual names do not collide',
    async run(scene) {
      const names = oddNames(scene.election.slice(-8))
      check(new Set(names).size === names.length, 'Two names of the suite are equal.')
      const grants = new Map<string, string>()
      for (const election of names) {
        const before = await scene.read(election)
        check(
          before?.election === undefined || before.election === election,
          `read(${show(election)}) returned ${show(before)}.`,
        )
        const claim = scene.claim({
          election,
          afterTerm: before?.term ?? 0,
          ...(before && { expiredVersion: before.version }),
        })
        const outcome = await scene.acquire(claim)
        const { record } = granted(
          `acquire of ${show(election)}`,
          outcome,
          'The name must not collide with that of another election.',
        )
        same('The election of the record', record.election, election, 'A store must keep the name unchanged.')
        grants.set(election, claim.attempt)
      }
      for (const [election, attempt] of grants) {
        if (!scene.store.terms) continue
        const record = await scene.read(election)
        same(`The attempt that holds ${show(election)}`, record?.attempt, attempt, 'Another election has changed it.')
        if (record) granted('release', await scene.release(record), `${show(election)} is held.`)
      }
    },
  },
]

function oddNames(id: string): string[] {
  const plain = [
    `${id}-Case`,
    `${id}-case`,
    `${id}-CASE`,
    `${id}-é`,
    `${id}-e\u0301`,
    `${id}-ß`,
    `${id}-ss`,
    `${id}-K`,
    `${id}-\u212a`,
    `${id}-🦊`,
    `${id}-日本語`,
    `${id}-\u202eright to left`,
    ` ${id}`,
    `${id} `,
    `${id}  `,
    `${id}.`,
    `${id}/`,
    `/${id}`,
    `${id}//`,
    `./${id}`,
    `../${id}`,
    `../../${id}`,
    `${id}/a`,
    `${id}%2Fa`,
    `${id}%252Fa`,
    `${id}\\a`,
    `${id}:a`,
    `${id}?a`,
    `${id}#a`,
    `${id}*`,
    `${id}_`,
    `${id}%`,
    `${id}+a`,
    `${id} a`,
    `${id}.json`,
    `${id}.lock`,
    `${id}.tmp`,
    `${id}'; drop table leases; --`,
    `"${id}"`,
    `$\{${id}}`,
    `{${id}}`,
    id.padEnd(256, 'a'),
    id.padEnd(255, 'a'),
    id.padEnd(255, 'a') + 'b',
    id.padEnd(128, 'a') + 'ü'.repeat(64),
    'constructor',
    '__proto__',
    '.',
    '..',
  ]
  // A name that looks like the hashed form of another name must not collide with it.
  const hash = (name: string) => createHash('sha256').update(name).digest('hex')
  return [...plain, `h--${hash(`../${id}`)}`, `h--${hash(`${id} a`)}`, hash(`../${id}`), `h--${id}`]
}
