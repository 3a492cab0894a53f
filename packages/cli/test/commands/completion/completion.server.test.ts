import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { pathOf } from '../../../../../test/servers/find-program.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { openTerminal } from '../../terminal.ts'
import { program, run, temporaryFolder } from '../../tenure.ts'

/** Creates a working folder with the script of a shell, the command itself, and two files. */
function prepare(shell: string) {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'tenure'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`, { mode: 0o755 })
  const script = execFileSync(process.execPath, [program, 'completion', shell], { encoding: 'utf8' })
  writeFileSync(join(folder, 'script'), script)
  for (const name of ['certificate.pem', 'my key.pem']) writeFileSync(join(folder, name), '')
  return { folder, path: `${folder}:${process.env['PATH'] ?? ''}` }
}

/** Returns the completions that bash offers for a line, by calling its completion function. */
function offeredByBash(line: string): string[] {
  const { folder } = prepare('bash')
  const words = line.split(' ')
  const text = [
    'source ./script',
    `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})`,
    `COMP_CWORD=${words.length - 1}`,
    'compopt() { :; }',
    '_tenure',
    'printf "%s\\n" "${COMPREPLY[@]}"',
  ].join('\n')
  const offered = execFileSync('bash', ['--norc', '-c', text], { cwd: folder, encoding: 'utf8' })
  return offered.split('\n').filter(Boolean)
}

test.each([
  ['tenure lea', ['leader']],
  ['tenure --v', ['--version']],
  ['tenure leader --st', ['--store']],
  ['tenure leader jobs --store fi', ['file:///']],
  ['tenure leader jobs --ca-file cert', ['certificate.pem']],
  ['tenure leader jobs --key-file my', ['my key.pem']],
  ['tenure run jobs --restart on', ['on-failure']],
  ['tenure run jobs --missed r', ['run-once']],
  ['tenure serve --log-level si', ['silent']],
  ['tenure completion f', ['fish']],
  ['tenure leader jobs --timeout 1', []],
  ['tenure help wat', ['watch']],
])('bash completes %s', (line, offered) => {
  expect(offeredByBash(line)).toEqual(offered)
})

test('bash offers every command, and every option that its help shows', async () => {
  const { out: help } = await run(['--help'])
  const commands = [...help.matchAll(/^ {2}([a-z]+) .*/gm)].map(([, name]) => name)
  expect(commands).toEqual(expect.arrayContaining(['run', 'leader', 'completion']))
  expect(offeredByBash('tenure ').toSorted()).toEqual(commands.toSorted())
  const { out: options } = await run(['sidecar', '--help'])
  const flags = [...options.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, name]) => name)
  expect(offeredByBash('tenure sidecar --').toSorted()).toEqual(flags.toSorted())
})

test('an unknown shell is rejected with a suggestion', async () => {
  expect(await run(['completion', 'zhs'])).toEqual({
    code: 2,
    out: '',
    error: 'tenure: SHELL must be one of bash, zsh, fish, not "zhs". Did you mean "zsh"?\n',
  })
})

/** Types into a real shell and presses the tab key. */
async function typeInto(command: string, shell: string, setUp: string) {
  const { folder, path } = prepare(shell)
  // A shell writes its history when it exits, even into a folder that is being removed.
  const env = { PATH: path, HOME: folder, HISTFILE: '/dev/null' }
  const terminal = openTerminal(`cd '${folder}' && exec ${command}`, { env })
  await terminal.shown(/\S/)
  const type = (text: string) => terminal.press(text)
  type(setUp)
  type('Enter')
  // Split, so that the typed line does not match the expected output.
  type('echo re""ady')
  type('Enter')
  await terminal.shown(/^ready$/m)
  for (const [typed, completed] of [
    ['tenure lea', /tenure leader *$/m],
    ['jobs --tok', /tenure leader jobs --token-file *$/m],
    ['cert', /--token-file certificate\.pem *$/m],
  ] as const) {
    type(typed)
    type('Tab')
    await terminal.shown(completed)
  }
}

describeWithPrograms([programs.tmux], 'a real bash', () => {
  test('a real bash completes what is typed', async () => {
    await typeInto('bash --norc --noprofile -i', 'bash', 'source ./script')
  })
})

describeWithPrograms([programs.tmux, programs.zsh], 'a real zsh', () => {
  test('a real zsh completes what is typed', async () => {
    await typeInto(`${pathOf(programs.zsh)} -f -i`, 'zsh', 'autoload -U compinit; compinit -u; source ./script')
  })
})

describeWithPrograms([programs.fish], 'a real fish', () => {
  test('a real fish completes what is typed', () => {
    const { folder, path } = prepare('fish')
    const offered = (line: string) =>
      execFileSync(pathOf(programs.fish), ['--no-config', '-c', `source ./script; complete -C '${line}'`], {
        cwd: folder,
        encoding: 'utf8',
        env: { ...process.env, PATH: path, HOME: folder },
      })
        .split('\n')
        .flatMap((text) => (text === '' ? [] : [text.split('\t')[0]]))
    expect(offered('tenure lea')).toEqual(['leader'])
    expect(offered('tenure leader --tok')).toEqual(['--token-file'])
    expect(offered('tenure leader --token-file cert')).toEqual(['certificate.pem'])
    expect(offered('tenure leader --store fi')).toEqual(['file:///'])
    expect(offered('tenure completion f')).toEqual(['fish'])
  })
})
