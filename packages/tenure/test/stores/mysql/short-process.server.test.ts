import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { mariadb } from '../../../../../test/servers/mariadb.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'

const program = `
  import { once } from 'node:events'
  import { openStore } from 'tenure/stores'
  const store = await openStore(process.env.URL)
  const read = (timeoutMs) => store.read('jobs', { timeoutMs, signal: new AbortController().signal })
  await read(30_000)
  console.log('connected')
  await once(process.stdin, 'data')
  process.stdin.destroy()
  await read(500).catch(({ code }) => console.log(code))
  await store.close()`

describeWith(mariadb, 'a process with a MySQL store', (server) => {
  test('the process exits on its own after the server disappeared from an open connection', async () => {
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.stop())
    const url = new URL(server().url)
    url.port = String(proxy.port)
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      cwd: fileURLToPath(new URL('.', import.meta.url)),
      env: { ...process.env, URL: url.href },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    let output = ''
    child.stdout.on('data', (chunk) => (output += String(chunk)))
    await once(child.stdout, 'data')
    proxy.freezeExisting()
    child.stdin.end('continue')
    expect(await once(child, 'close')).toEqual([0, null])
    expect(output).toBe('connected\nTIMEOUT\n')
  })
})
