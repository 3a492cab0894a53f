import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { createServer, type AddressInfo, type Server } from 'node:net'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { audience, claimsOf, ecKeys, issuer, jwkOf, signed } from '../../../service/test/auth/tokens.ts'
import { makeCertificate } from '../../../tenure/test/kubernetes/certificate.ts'
import { run, serve, temporaryFolder, tenure } from '../tenure.ts'

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('invalid usage is reported with exit code 2 before anything connects', () => {
  test.for([
    [['leader', 'jobs', '--stroe', 'x'], /unknown option '--stroe'\n\(Did you mean --store\?\)/],
    [['campain', 'jobs'], /unknown command 'campain'\n\(Did you mean campaign\?\)/],
    [['leader'], /missing required argument 'election'/],
    [['leader', 'jobs', 'more'], /too many arguments/],
    [['leader', ''], /ELECTION must be text of 1 to 256 bytes/],
    [['leader', 'a\nb'], /ELECTION must be text of 1 to 256 bytes/],
    [['leader', 'jobs'], /--store is missing, and TENURE_STORE is not set/],
    [['leader', 'jobs', '--store', 'leases'], /--store is "leases", but it must be a URL such as/],
    [['leader', 'jobs', '--store', 'flie:///leases'], /no store for "flie:"\. Did you mean "file:"\? Known schemes:/],
    [
      ['leader', 'jobs', '--store', 'file:leases'],
      /--store is "file:leases", but it must be "file:\/\/\/" with an abs/,
    ],
    [
      ['leader', 'jobs', '--store', 'kubernetes:x'],
      /--store is "kubernetes:x", but it must be "kubernetes:\/\/", optionally/,
    ],
    [
      ['leader', 'jobs', '--store', 'http://HOST?x=1'],
      /The address is "http:\/\/HOST\?x=\*\*\*", but it must be the http:/,
    ],
    [
      ['leader', 'jobs', '--store', 'http://me:hunter2@HOST'],
      /The address is "HOST", but the URL of a service must not contain a password/,
    ],
    [['watch', 'jobs', '--store', 'kubernetes://me:hunter2@x'], /--store is "kubernetes:\/\/\*\*\*@x", but it must be/],
    [['watch', 'jobs', '--store', 'http://HOST', '--timeout', '5'], /--timeout must be .* Did you mean "5s"\?/],
    [['sidecar', 'jobs', '--store', 'http://HOST', '--listen', '4040'], /Did you mean "127\.0\.0\.1:4040"\?/],
    [
      ['sidecar', 'jobs', '--store', 'http://HOST', '--metadata', '7'],
      /--metadata must be key=value or a JSON object, such as zone=a or/,
    ],
    [['doctor', '--store', 'http://HOST', '--ttl', '10sec'], /--ttl must be .* Did you mean "10s"\?/],
    [['doctor', '--store', 'http://HOST', '--ttl', '20ms'], /^tenure: --ttl must be 100ms or more, not 20ms\.\n$/],
    [['doctor', '--store', 'http://HOST', '--ttl', '1d'], /--ttl must be .* Did you mean "24h"\?/],
    [['RUN', 'jobs'], /unknown command 'RUN'\n\(Did you mean run\?\)/],
    [['leader', 'jobs', '--STORE', 'http://HOST'], /unknown option '--STORE'\n\(Did you mean --store\?\)/],
    [['leader', 'jobs', '--store', 'k8s://jobs'], /no store for "k8s:"\. Did you mean "kubernetes:"\?/],
    [
      ['run', 'jobs', '--store', 'http://HOST', '--every', '@daily', '--missed', 'run', '--', 'true'],
      /--missed must be one of .* Did you mean "run-once"\?/,
    ],
    [['serve', '--log-level', 'warning'], /--log-level must be one of .* Did you mean "warn"\?/],
    [['groups'], /--store is missing, and TENURE_STORE is not set/],
    [['resign', 'jobs', '--url', 'file:///leases'], /--url must be the address of an election service/],
    [['groups', '--url', 'http://HOST', '--ca-file', 'no.pem'], /--ca-file must be a readable file/],
    [['resign', 'jobs', '--url', 'http://HOST', '--term', 'one'], /--term must be a whole number/],
    [['campaign', 'jobs', '--url', 'http://HOST', '--identity', ''], /--identity must be text/],
    [
      ['run', 'jobs', '--store', 'http://HOST', '--every', '@daily', '--timezone', 'Europe/Zurch', '--', 'true'],
      /--timezone must be a time zone.* Did you mean "Europe\/Zurich"\?/,
    ],
    [['demo', '--harm-every', 'often'], /--harm-every must be a duration/],
    [
      ['leader', 'jobs', '--store', `http://me:hunter2@HOST/${'x'.repeat(2_000)}`],
      /^(?!.*hunter2).*must not contain a password/,
    ],
    [['leader', 'jobs', '--store', ' '], /--store must be a URL/],
    [['sidecar', 'jobs', '--store', 'http://HOST', '--timeout', '5s'], /unknown option '--timeout'/],
  ] as const)('tenure rejects %j', async ([args, message]) => {
    let connections = 0
    const host = await listening(createServer((socket) => void ((connections += 1), socket.destroy())))
    const filled = args.map((arg) => arg.replace('HOST', host))
    const { code, out, error } = await run(filled, { cwd: temporaryFolder() })
    expect(error.replaceAll(host, 'HOST')).toMatch(message)
    expect({ code, out, connections }).toEqual({ code: 2, out: '', connections: 0 })
    expect(error).not.toContain('hunter2')
  })

  test.for([
    ['* * * *', /--every must be a cron expression of five fields, or six with seconds, such as "[^"]+", not "/],
    ['* * * * * * *', /five fields, or six with seconds/],
    ['2030-01-01T00:00:00', /five fields, or six with seconds/],
    [
      '0 0 1 JANN *',
      /--every must be a cron expression, such as "[^"]+": its field 4 \(JANN\) is not understood, not "/,
    ],
    ['0 0 0 1 JANN *', /its field 5 \(JANN\) is not understood/],
    ['@dayly', /must be one of @.*, or a cron expression of five fields.* Did you mean "@daily"\?/],
    ['@reboot', /must be one of @.*, or a cron expression of five fields/],
  ] as const)('the error for --every %j says what is wrong', async ([every, message]) => {
    const { code, error } = await run(['run', 'jobs', '--store', 'memory:', '--every', every, '--', 'true'])
    expect(error).toMatch(message)
    expect(error).not.toMatch(/seven|entry|parts|some day/)
    expect(code).toBe(2)
  })

  test('a token that cannot be sent in a header is rejected', async () => {
    const options = { env: { TENURE_TOKEN: 'hunter2\nhunter2' } }
    const { code, error } = await run(['leader', 'jobs', '--store', 'http://127.0.0.1:1'], options)
    expect({ code, error }).toEqual({
      code: 2,
      error: 'tenure: The token is "***", but it must not contain spaces, line breaks or non-ASCII characters.\n',
    })
  })

  test('a token is not sent over a network without TLS', async () => {
    const options = { env: { TENURE_TOKEN: 'hunter2' } }
    const { code, error } = await run(['leader', 'jobs', '--store', 'http://elections.example.com'], options)
    expect({ code, error }).toEqual({
      code: 2,
      error:
        'tenure: The address is "http://elections.example.com/", but a token must not cross a network unencrypted: use https:.\n',
    })
  })
})

describe('a failed call is reported with what happened, to what, and what to do', () => {
  const ask = async (store: string, args: string[] = [], env: Record<string, string> = {}) => {
    const { code, out, error } = await run(['leader', 'jobs', '--store', store, ...args], { env })
    expect({ code, out }).toEqual({ code: 69, out: '' })
    return error
  }

  test('the command line reports that nothing is listening at the address', async () => {
    const server = createServer()
    const host = await listening(server)
    server.close()
    await once(server, 'close')
    expect(await ask(`http://${host}`)).toBe(
      `tenure: The election service at http://${host} cannot be reached: connect ECONNREFUSED ${host}. Nothing is listening there. Start the server, or correct the host or the port.\n`,
    )
  })

  test('the command line reports that the host name cannot be resolved', async () => {
    expect(await ask('https://elections.invalid')).toMatch(
      /at https:\/\/elections\.invalid cannot be reached: getaddrinfo (ENOTFOUND|EAI_AGAIN) .*(Correct it|Try again), or check /,
    )
  })

  test('the command line reports that the store does not answer', async () => {
    const host = await listening(createServer(() => {}))
    expect(await ask(`http://${host}`, ['--timeout', '200ms'])).toMatch(/ answered .*within 200 ?ms\..*--timeout/)
  })

  test('tenure run reports an unresponsive store after a timeout derived from the lease duration, and does not suggest --timeout', async () => {
    const host = await listening(createServer(() => {}))
    const { child, output, ended } = tenure(['run', 'jobs', '--store', `http://${host}`, '--ttl', '1s', '--', 'true'])
    await expect.poll(() => output.error, { timeout: 20_000 }).toMatch(/did not answer/)
    child.kill()
    await ended
    expect(output.error).not.toContain('--timeout')
  })

  test('the command line reports that the certificate is untrusted, for another name, or expired', async () => {
    const folder = temporaryFolder()
    const served = async (certificate: { cert: string; key: string }, name: string) => {
      const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)]
      writeFileSync(cert, certificate.cert)
      writeFileSync(key, certificate.key)
      const { url } = await serve(join(folder, name), ['--tls-cert', cert, '--tls-key', key])
      return { url, cert }
    }
    const good = await served(makeCertificate(), 'good')
    expect(await ask(good.url)).toMatch(
      /self-signed certificate.*not trusted here\. Name the CA certificate with --ca-file/,
    )
    const { code } = await run(['leader', 'jobs', '--store', good.url, '--ca-file', good.cert])
    expect(code).toBe(1)
    expect(await ask(good.url.replace('https', 'http'))).toMatch(
      /The server closed the connection\. Does it expect TLS/,
    )
    expect(await ask(good.url.replace('https', 'redis'))).toMatch(/rediss:/)
    const other = await served(makeCertificate({ names: ['elections.example.com'] }), 'other')
    expect(await ask(other.url, ['--ca-file', other.cert])).toMatch(/for another name\. Use that name in the URL/)
    const old = await served(makeCertificate({ endsMs: Date.now() - 60_000 }), 'old')
    expect(await ask(old.url, ['--ca-file', old.cert])).toMatch(/Its certificate has expired/)
  })

  test('the command line reports that the server does not use TLS', async () => {
    const { url } = await serve(temporaryFolder())
    expect(await ask(url.replace('http', 'https'))).toMatch(/Should it be http: instead of https:/)
  })

  test('the command line reports that the server is not an election service', async () => {
    const host = await listening(createHttpServer((_, response) => response.end('<html>')))
    expect(await ask(`http://${host}`)).toContain(`The election service at http://${host} sent a malformed response`)
  })

  test('the command line reports that the caller is not authenticated, and does not print the token', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'keys.json'), JSON.stringify(jwkOf(ecKeys().publicKey)))
    const jwt = ['--jwt-keys', join(folder, 'keys.json'), '--jwt-issuer', issuer, '--jwt-audience', audience]
    const { url, output } = await serve(join(folder, 'data'), jwt)
    expect(await ask(url)).toMatch(
      /could not authenticate the caller \(401\)\..*Authenticate with --token-file, TENURE_TOKEN or --cert/,
    )
    const error = await ask(url, [], { TENURE_TOKEN: 'hunter2.hunter2.hunter2' })
    expect(error).toMatch(/could not authenticate the caller \(401\)/)
    expect(error + output.error).not.toContain('hunter2')
  })

  test('the command line reports that the token is for a node other than --identity', async () => {
    const folder = temporaryFolder()
    const { publicKey, privateKey } = ecKeys()
    writeFileSync(join(folder, 'keys.json'), JSON.stringify(jwkOf(publicKey)))
    writeFileSync(join(folder, 'token'), signed({ alg: 'ES256' }, claimsOf('node-17'), privateKey))
    const jwt = ['--jwt-keys', join(folder, 'keys.json'), '--jwt-issuer', issuer, '--jwt-audience', audience]
    const { url } = await serve(join(folder, 'data'), jwt)
    const args = ['--url', url, '--identity', 'vm', '--token-file', join(folder, 'token')]
    const { code, error } = await run(['campaign', 'payments-eu', ...args])
    expect(error).toMatch(
      /may not act for node "vm"\. Set --identity to the node that the token or the certificate names\.\n$/,
    )
    expect(code).toBe(69)
  })

  test.for([
    ['', /^tenure: --token-file \S+token is empty\.\n$/],
    [
      'hunter2 hunter2\n',
      /^tenure: The token in \S+token must not contain spaces, line breaks or non-ASCII characters\.\n$/,
    ],
    [
      'hunter2\nhunter2\n',
      /^tenure: The token in \S+token must not contain spaces, line breaks or non-ASCII characters\.\n$/,
    ],
  ] as const)('the error for a token file with %j says what is wrong', async ([text, message]) => {
    const file = join(temporaryFolder(), 'token')
    writeFileSync(file, text, { mode: 0o600 })
    const error = await ask('http://127.0.0.1:1', ['--token-file', file])
    expect(error).toMatch(message)
    expect(error).not.toContain('hunter2')
  })

  test('the command line reports that the token file is a folder', async () => {
    expect(await ask('http://127.0.0.1:1', ['--token-file', temporaryFolder()])).toMatch(
      /^tenure: --token-file \S+ cannot be read: EISDIR: .*\.\n$/,
    )
  })

  test('the command line reports that the folder may not be used', async () => {
    const file = join(temporaryFolder(), 'file')
    writeFileSync(file, '')
    expect(await ask(pathToFileURL(join(file, 'leases')).href)).toMatch(
      /The file store cannot use ".*": .*ENOTDIR.*A part of the path is a file: choose another directory\./,
    )
  })

  test('the command line reports that there is no kubeconfig', async () => {
    const env = { KUBECONFIG: join(temporaryFolder(), 'none'), KUBERNETES_SERVICE_HOST: '' }
    expect(await ask('kubernetes://jobs', [], env)).toMatch(
      /^tenure: The kubeconfig .*none does not exist\. Set KUBECONFIG to the path of a kubeconfig\.\n$/,
    )
  })

  test('the command line reports that the current context of the kubeconfig does not exist', async () => {
    const path = join(temporaryFolder(), 'config')
    writeFileSync(path, 'current-context: b\ncontexts:\n- name: c\n  context: {}\n')
    expect(await ask('kubernetes://jobs', [], { KUBECONFIG: path, KUBERNETES_SERVICE_HOST: '' })).toBe(
      `tenure: The current-context of ${path} is "b", which does not exist. Choose with "kubectl config use-context" one of the contexts of ${path}: "c".\n`,
    )
  })

  test('the command line reports that the kubeconfig uses an unsupported feature', async () => {
    const path = join(temporaryFolder(), 'config')
    writeFileSync(
      path,
      [
        'current-context: c',
        'contexts: [{ name: c, context: { cluster: c, user: u } }]',
        'clusters: [{ name: c, cluster: { server: "https://127.0.0.1:1" } }]',
        'users: [{ name: u, user: { exec: { command: aws } } }]',
      ].join('\n'),
    )
    expect(await ask('kubernetes://jobs', [], { KUBECONFIG: path, KUBERNETES_SERVICE_HOST: '' })).toMatch(
      /has "exec", which is not supported here\. Use a kubeconfig with a token or a client certificate instead\.\n$/,
    )
  })
})

test('the command line reports a missing package that a store needs, and how to install it', () => {
  // Copies the command as it would be installed without its optional dependency.
  const folder = temporaryFolder()
  const packages = join(import.meta.dirname, '../../..')
  const modules = join(folder, 'node_modules')
  for (const [name, from] of [
    ['tenure', join(packages, 'tenure')],
    ['@tenure/cli', join(packages, 'cli')],
  ] as const) {
    mkdirSync(join(modules, name), { recursive: true })
    for (const part of ['package.json', 'dist', 'bin']) {
      if (part !== 'bin' || name !== 'tenure') cpSync(join(from, part), join(modules, name, part), { recursive: true })
    }
  }
  const commander = dirname(createRequire(join(packages, 'cli/package.json')).resolve('commander'))
  cpSync(commander, join(modules, 'commander'), { recursive: true })
  const command = join(modules, '@tenure/cli/bin/tenure.js')
  const args = ['doctor', '--store', pathToFileURL(join(folder, 'leases')).href]
  const { status, stderr } = spawnSync(process.execPath, [command, ...args], { encoding: 'utf8' })
  expect(stderr).toMatch(/needs the package "fs-native-extensions".* Run: npm install fs-native-extensions\n$/)
  expect(status).toBe(69)
})

test('only serve loads the dependencies of the service', async () => {
  const { child, ended } = tenure(['leader', 'jobs', '--store', 'memory:'], { env: { NODE_DEBUG: 'esm' } })
  let loaded = ''
  child.stderr?.on('data', (text: string) => (loaded += text))
  expect(await ended).toBe(1)
  expect(loaded).toContain('tenure/dist/stores/index.js')
  expect(loaded).not.toMatch(/fastify|lmdb|stores\/(kubernetes|file|service)\.js/)
})

test('a password on the command line causes a warning that does not show the password, and a password in the environment causes none', async () => {
  const urls = {
    shown: ['postgres://me:hunter2@127.0.0.1:1/app', 'redis://127.0.0.1:1/0?sentinel=x&sentinelPassword=hunter2'],
    plain: ['postgres://me@127.0.0.1:1/app', 'file:///nowhere'],
  }
  const warning = 'Any user on this machine can read the password in'
  for (const url of urls.shown) {
    const { error } = await run(['leader', 'jobs', '--store', url, '--timeout', '1s'])
    expect(error).toContain(`${warning} --store`)
    expect(error).not.toContain('hunter2')
    const quiet = await run(['leader', 'jobs', '--timeout', '1s'], { env: { TENURE_STORE: url } })
    expect(quiet.error).not.toContain(warning)
  }
  for (const url of urls.plain) {
    expect((await run(['leader', 'jobs', '--store', url, '--timeout', '1s'])).error).not.toContain(warning)
  }
  const served = await run([
    'serve',
    '--store',
    'etcd://me:hunter2@127.0.0.1:1',
    '--advertise',
    'http://127.0.0.1:1',
    '--json',
  ])
  const [line = '{}'] = served.error.split('\n')
  expect(JSON.parse(line)).toMatchObject({ level: 'warn', msg: expect.stringContaining(warning) as string })
  expect(served.error).not.toContain('hunter2')
})
