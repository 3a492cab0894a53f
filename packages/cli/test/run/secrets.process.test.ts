import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { scene } from './scene.ts'

const secret = 'hunter2.hunter2.hunter2'
const printed = ['--', 'sh', '-c', 'env | grep ^TENURE_TOKEN | sort']

test('the command does not get the token unless --pass-secrets is set', async () => {
  const on = scene()
  const file = join(on.folder, 'token')
  writeFileSync(file, secret)
  const env = { TENURE_TOKEN: secret, TENURE_TOKEN_FILE: file }
  const withheld = on.run(['--once', ...printed], { env })
  expect(await withheld.ended).toBe(0)
  expect(withheld.output.out).toBe(`TENURE_TOKEN_FILE=${file}\n`)
  expect(withheld.output.error).not.toContain('Unknown environment variable')
  const asked = on.run(['--once', '--pass-secrets', ...printed], { env })
  expect(await asked.ended).toBe(0)
  expect(asked.output.out).toBe(`TENURE_TOKEN=${secret}\nTENURE_TOKEN_FILE=${file}\n`)
})

test('neither the supervisor nor the command gets the token in its environment', async () => {
  const on = scene()
  const wrapper = on.work([], [], { env: { TENURE_TOKEN: secret } })
  const { pid } = await on.wrote('begin')
  for (const each of [wrapper.supervisor(), pid]) {
    const environment = await vi.waitUntil(() => readFileSync(`/proc/${each}/environ`, 'utf8'))
    expect(environment).toContain('PATH=')
    expect(environment).not.toContain(secret)
  }
})
