import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { pathOf } from '../../../../test/servers/find-program.ts'
import { programs } from '../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../test/servers/suite.ts'
import { runs, scene } from './scene.ts'
import { program } from '../tenure.ts'

/** Opens a terminal with a shell. */
function terminal() {
  const path = pathOf(programs.tmux)
  const on = scene()
  const socket = join(on.folder, 'tmux')
  const call = (...args: string[]) => execFileSync(path, ['-S', socket, ...args], { encoding: 'utf8' })
  call('new-session', '-d', '-x', '100', '-y', '30', 'sh')
  onTestFinished(() => {
    try {
      call('kill-server')
    } catch {
      // The server ended with its last window.
    }
  })
  const type = (...keys: string[]) => call('send-keys', ...keys)
  const screen = () => call('capture-pane', '-p')
  const worker = join(import.meta.dirname, './logging-command.mjs')
  const wrapper = (args: string, command: string) =>
    `'${process.execPath}' '${program}' run jobs --store '${on.store}' ${args} -- ${command}`
  return {
    on,
    call,
    type,
    screen,
    wrapper,
    work: (args = '') => wrapper(args, `'${process.execPath}' '${worker}' --file '${on.file}'`),
    shows: (text: string | RegExp) =>
      vi.waitUntil(() => (typeof text === 'string' ? screen().includes(text) : text.test(screen())), {
        timeout: 20_000,
        interval: 50,
      }),
  }
}

describeWithPrograms([programs.tmux], 'in a terminal', () => {
  test('in a terminal the command reads what is typed and writes to the screen', async () => {
    const at = terminal()
    at.type(at.wrapper('--once', `sh -c 'echo ready; read line; echo "got <$line>"; tty'`), 'Enter')
    await at.shows(/^ready/m)
    at.type('hello there', 'Enter')
    await at.shows('got <hello there>')
    await at.shows(/\/dev\/pts\/\d+/)
  })

  test('Ctrl-C reaches the command once', async () => {
    const at = terminal()
    at.type(`${at.work()}; echo code $?`, 'Enter')
    await at.on.wrote('begin')
    at.type('C-c')
    await at.shows('code 130')
    expect(at.on.lines().filter(({ what }) => what.startsWith('SIG'))).toMatchObject([{ what: 'SIGINT' }])
  })

  test('Ctrl-\\ reaches the command once', async () => {
    const at = terminal()
    at.type(`${at.wrapper('', `sh -c 'trap "echo quits; exit 9" QUIT; while :; do sleep 0.1; done'`)}; echo code $?`)
    at.type('Enter')
    await at.shows('leads "jobs"')
    await new Promise((resolve) => setTimeout(resolve, 500))
    at.type('C-\\')
    await at.shows('code 9')
  })

  test('the command learns the window size, even when it changes', async () => {
    const at = terminal()
    at.type(at.wrapper('', `sh -c 'trap "stty size" WINCH; stty size; while :; do sleep 0.1; done'`), 'Enter')
    await at.shows(/^30 100/m)
    at.call('resize-window', '-x', '90', '-y', '25')
    await at.shows(/^25 90/m)
  })

  test('Ctrl-Z stops tenure and its command, and fg continues both', async () => {
    const at = terminal()
    at.type('set -m', 'Enter')
    at.type(at.work(), 'Enter')
    const { pid } = await at.on.wrote('begin')
    at.type('C-z')
    await at.shows(/Stopped/)
    await vi.waitUntil(() => readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') T '), { timeout: 10_000 })
    const count = at.on.lines().length
    at.type('fg', 'Enter')
    await vi.waitUntil(() => at.on.lines().length > count + 5, { timeout: 10_000 })
  })

  test('a command in the background does not read what is typed for the shell', async () => {
    const at = terminal()
    at.type('set -m', 'Enter')
    at.type(`${at.wrapper('--once', `sh -c 'if read line; then echo "took <$line>"; else echo none; fi'`)} &`, 'Enter')
    await at.shows(/^none/m)
    at.type('echo still my shell', 'Enter')
    await at.shows(/^still my shell/m)
  })

  test('closing the window ends the command and releases the lease', async () => {
    const at = terminal()
    at.type(at.work('--ttl 60s'), 'Enter')
    const { pid } = await at.on.wrote('begin')
    at.call('kill-server')
    await vi.waitUntil(() => !runs(pid), { timeout: 20_000 })
    // The kernel resumes the processes that it hangs up on.
    const heard = at.on.lines().filter(({ what }) => what.startsWith('SIG') && what !== 'SIGCONT')
    expect(heard).toMatchObject([{ what: 'SIGHUP' }])
    expect(existsSync(at.on.file)).toBe(true)
    const next = at.on.work(['--once', '--ttl', '60s'], ['--exit', '0'])
    expect(await next.ended).toBe(0)
  })
})
