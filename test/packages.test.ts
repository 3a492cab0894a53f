import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from './source-files.ts'

interface Locked {
  readonly link?: boolean
  readonly resolved?: string
  readonly integrity?: string
}

const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** Returns packages that an install would accept without a checksum, or from a URL that the lock names. */
function findUnlocked(packages: Readonly<Record<string, Locked>>): string[] {
  return Object.entries(packages)
    .filter(([path, { link }]) => path.includes('node_modules/') && !link)
    .filter(([, { integrity = '', resolved }]) => !integrity.startsWith('sha512-') || resolved !== undefined)
    .map(([path]) => path)
}

test('the lock file has a checksum and no URL for every package', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> }
  expect(Object.keys(packages).length).toBeGreaterThan(300)
  expect(findUnlocked(packages)).toEqual([])
  expect(read('.npmrc')).toContain('omit-lockfile-registry-resolved=true')
})

test('a package without a checksum, or with a URL, is reported', () => {
  const integrity = 'sha512-AAAA'
  const planted = {
    '': {},
    'packages/a': {},
    'node_modules/a': { link: true, resolved: 'packages/a' },
    'node_modules/sound': { integrity },
    'node_modules/b': {},
    'node_modules/b/node_modules/c': { integrity: 'sha1-AAAA' },
    'node_modules/d': { integrity, resolved: 'https://example.com/d.tgz' },
  }
  expect(findUnlocked(planted)).toEqual(['node_modules/b', 'node_modules/b/node_modules/c', 'node_modules/d'])
})

const manifestOf = (name: string): Record<string, unknown> => JSON.parse(read(`packages/${name}/package.json`))
const published = readdirSync(join(root, 'packages')).filter((name) => manifestOf(name)['private'] !== true)

test('packages of this project depend on each other at exactly their own version', () => {
  const versions = new Map(published.map((name) => [manifestOf(name)['name'], manifestOf(name)['version']]))
  for (const name of published) {
    const { dependencies, peerDependencies } = manifestOf(name) as Record<string, Record<string, string>>
    const own = Object.entries({ ...dependencies, ...peerDependencies }).filter(([needed]) => versions.has(needed))
    expect(own, name).toEqual(own.map(([needed]) => [needed, versions.get(needed)]))
  }
})

test.each(published)('%s names its repository and where to report issues', (name) => {
  const address = 'https://github.com/tenure-js/tenure'
  expect(manifestOf(name)).toMatchObject({
    repository: { type: 'git', url: `git+${address}.git`, directory: `packages/${name}` },
    homepage: `${address}#readme`,
    bugs: { url: `${address}/issues` },
  })
})
