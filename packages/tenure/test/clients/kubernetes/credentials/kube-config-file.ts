import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { stringify } from 'yaml'

export const base64 = (text: string) => Buffer.from(text).toString('base64')

/** A kubeconfig in the layout of kubectl. */
export function kubeConfig(cluster: object, user: object, more: object = {}): string {
  const config = {
    apiVersion: 'v1',
    clusters: [{ cluster, name: 'here' }],
    contexts: [
      { context: { cluster: 'here', namespace: 'jobs', user: 'me' }, name: 'me@here' },
      { context: { cluster: 'gone', user: 'me' }, name: 'me@gone' },
      { context: { cluster: 'here', user: 'gone' }, name: 'gone@here' },
      { context: { cluster: 'here' }, name: '@here' },
    ],
    'current-context': 'me@here',
    kind: 'Config',
    preferences: {},
    users: [{ name: 'me', user }],
    ...more,
  }
  return stringify(config, { indentSeq: false, lineWidth: 0, aliasDuplicateObjects: false })
}

/** A directory for the files of one test file. It is removed afterwards. */
export function folderOfFiles() {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-kubeconfig-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  let written = 0
  const write = (content: string | Buffer, name = `file-${++written}`): string => {
    const path = join(folder, name)
    writeFileSync(path, content)
    return path
  }
  return { folder, write }
}
