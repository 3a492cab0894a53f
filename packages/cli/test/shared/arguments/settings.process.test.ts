import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { serveSettings } from '../../../src/commands/serve/settings.ts'
import { flagOf } from '../../../src/shared/arguments/settings.ts'
import { program, temporaryFolder, tenure } from '../../tenure.ts'

describe('the command line', () => {
  const run = async (args: string[], options: Parameters<typeof tenure>[1] = {}) => {
    const { output, ended } = tenure(args, options)
    return { code: await ended, ...output }
  }

  test.for([
    [['serve', '--min-tll', '1s'], /unknown option '--min-tll'\n\(Did you mean --min-ttl\?\)/],
    [['serve', '--url', 'http://127.0.0.1'], /unknown option '--url'/],
    [['serve', '--store', 'etcd://127.0.0.1:2379/tenure'], /--store also requires --advertise/],
    [
      ['serve', '--data', '.', '--store', 'etcd://127.0.0.1:2379/tenure', '--advertise', 'http://127.0.0.1:7071'],
      /--data and --store are mutually exclusive/,
    ],
    [['serve', 'now'], /too many arguments/],
    [['srve'], /unknown command 'srve'\n\(Did you mean serve\?\)/],
    [['serve', '--listen', '7070'], /--listen must be HOST:PORT.*not "7070"\. Did you mean "127\.0\.0\.1:7070"\?/],
    [['serve', '--min-ttl', '2h'], /--min-ttl \(2h\) must not be longer than --max-ttl \(1h\)/],
    [['serve', '--tls-cert', 'package.json'], /--tls-cert also requires --tls-key/],
    [['serve', '--jwt-keys', 'package.json'], /--jwt-keys also requires --jwt-issuer.*\n.*requires --jwt-audience/],
    [['serve', '--jwt-keys', 'nowhere.json'], /--jwt-keys must be a readable file, not "nowhere.json"/],
    [['serve', '--config', 'nowhere.json'], /The configuration file nowhere.json cannot be read: ENOENT/],
    [
      ['serve', '--listen', ':0'],
      /--listen \[::\]:0 needs --token-key, --jwt-keys or --tls-client-ca: without authentication/,
    ],
    [
      ['serve', '--listen', '0.0.0.0:7070'],
      /--listen 0\.0\.0\.0:7070 needs --token-key, --jwt-keys or --tls-client-ca/,
    ],
    [
      ['serve', '--token-key', 'package.json', '--jwt-keys', 'package.json'],
      /--token-key and --jwt-keys are mutually exclusive/,
    ],
  ] as const)('%s exits with 2 before anything is opened', async ([args, message]) => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'package.json'), '{}')
    const { code, out, error } = await run([...args], { cwd: folder })
    expect(error).toMatch(message)
    expect({ code, out, opened: existsSync(join(folder, 'tenure-data')) }).toEqual({ code: 2, out: '', opened: false })
  })

  test('tenure without a subcommand shows its help and exits with 2', async () => {
    const { code, error } = await run([])
    expect(error).toContain('serve')
    expect(code).toBe(2)
  })

  test('help and version go to standard output', async () => {
    const help = await run(['serve', '--help'])
    expect(help).toMatchObject({ code: 0, error: '' })
    for (const [key, { withoutFlag, help: text }] of Object.entries(serveSettings)) {
      expect(help.out.includes(`${flagOf(key)} `), key).toBe(!withoutFlag)
      if (!withoutFlag) expect(help.out.replaceAll(/\s+/g, ' '), key).toContain(text)
    }
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../package.json'), 'utf8')) as {
      version: string
    }
    expect(await run(['--version'])).toEqual({ code: 0, out: `${version}\n`, error: '' })
  })

  test('variables of other commands, and those that tenure run sets, are not reported as unknown', async () => {
    const named = { TENURE_URL: 'http://127.0.0.1:7070', TENURE_CALLS: '5', TENURE_TTL_: '3s' }
    const script = `'${process.execPath}' '${program}' run inner --store memory: --once -- true`
    const { code, error } = await run(['run', 'outer', '--store', 'memory:', '--once', '--', 'sh', '-c', script], {
      env: named,
    })
    expect(code).toBe(0)
    const told = error.split('\n').filter((line) => line.includes('Unknown environment variable'))
    expect(told).toEqual(Array(2).fill('tenure: Unknown environment variable TENURE_TTL_. Did you mean "TENURE_TTL"?'))
  })
})
