import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run, temporaryFolder } from '../../tenure.ts'

test.for([
  [['--store', 'memory:'], /--cluster is missing, and TENURE_CLUSTER is not set/],
  [
    ['--cluster', 'East', '--store', 'memory:'],
    /--cluster must be a name such as "east": at most 63 characters from a-z, 0-9 and "-"/,
  ],
  [['--cluster', 'a/b', '--store', 'memory:'], /--cluster must be a name/],
  [['--cluster', 'east', '--store', 'memory:', '--namespace', 'No'], /--namespace must be the name of a namespace/],
  [['--cluster', 'east'], /--store is missing/],
] as const)('tenure controller rejects %j', async ([args, message]) => {
  const { code, error } = await run(['controller', ...args, '--listen', '127.0.0.1:0'])
  expect(error).toMatch(message)
  expect(code).toBe(2)
})

test('an error from tenure controller names a kubeconfig that cannot be used', async () => {
  const path = join(temporaryFolder(), 'config')
  writeFileSync(path, 'not: [a kubeconfig')
  const env = { KUBECONFIG: path, KUBERNETES_SERVICE_HOST: '' }
  const { code, error } = await run(['controller', '--cluster', 'east', '--store', 'memory:'], { env })
  expect(error).toContain(path)
  expect(code).not.toBe(0)
})
