import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { nats } from '../../../../../test/servers/nats.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'

const program = `
  import { openStore } from 'tenure/stores'
  const store = await openStore(process.env.URL)
  const call = { timeoutMs: 500, signal: new AbortController().signal }
  await store.read('jobs', call).catch(({ code }) => console.log(code))
  await store.close()`

describeWith(nats, 'a process with a NATS store', (server) => {
  test('the process exits on its own although the server accepted its connection and then sent nothing', async () => {
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.stop())
    proxy.set('blackhole')
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      cwd: fileURLToPath(new URL('.', import.meta.url)),
      env: { ...process.env, URL: `nats://127.0.0.1:${proxy.port}/leases` },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    let output = ''
    child.stdout.on('data', (chunk) => (output += String(chunk)))
    expect(await once(child, 'close')).toEqual([0, null])
    expect(output).toBe('TIMEOUT\n')
  })
})
