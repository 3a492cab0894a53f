import { execFileSync } from 'node:child_process'
import { generateKeyPairSync, randomInt } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathOf } from './find-program.ts'
import { requestJson } from './https-json.ts'
import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'

/** Users that authenticate with a token of the API server's token file. Only the first has any rights. */
export const tokenUsers = [
  'admin',
  'restricted',
  'stranger',
  'system:serviceaccount:default:candidate',
  'system:serviceaccount:default:other',
] as const

/** One of the users in the token file. */
export type TokenUser = (typeof tokenUsers)[number]

/** Returns a user's token in the token file. */
export const tokenOf = (user: TokenUser) => `token-of-${user.replaceAll(':', '-')}`

/** Files of an API server, in its directory. */
export const files = {
  serverCa: 'certificates/apiserver.crt',
  clientCa: 'client-ca.crt',
  clientCaKey: 'client-ca.key',
  tokens: 'tokens.csv',
  serviceAccountKey: 'service-account.key',
}

/**
 * kube-apiserver on an etcd, with RBAC and three ways to authenticate: token file, service account, and client
 * certificate.
 */
export function kubeApiserver(etcdUrl: string, flags: readonly string[] = []): ServerKind {
  const url = (port: number) => `https://127.0.0.1:${port}`
  return {
    name: 'kube-apiserver',
    program: programs.kubeApiserver,
    prepare({ directory }) {
      mkdirSync(join(directory, 'certificates'))
      const { privateKey } = generateKeyPairSync('ec', {
        namedCurve: 'prime256v1',
        publicKeyEncoding: { type: 'spki', format: 'pem' },
        privateKeyEncoding: { type: 'sec1', format: 'pem' },
      })
      writeFileSync(join(directory, files.serviceAccountKey), privateKey)
      const lines = tokenUsers.map((user) => [
        tokenOf(user),
        user,
        user,
        ...(user === 'admin' ? ['system:masters'] : []),
      ])
      writeFileSync(join(directory, files.tokens), lines.map((line) => `${line.join(',')}\n`).join(''))
      makeClientCa(directory)
    },
    args: ({ directory, port }) => [
      ...Object.entries({
        'etcd-servers': etcdUrl,
        'bind-address': '127.0.0.1',
        'secure-port': port,
        'cert-dir': join(directory, 'certificates'),
        'client-ca-file': join(directory, files.clientCa),
        'token-auth-file': join(directory, files.tokens),
        'service-account-key-file': join(directory, files.serviceAccountKey),
        'service-account-signing-key-file': join(directory, files.serviceAccountKey),
        'service-account-issuer': 'https://kubernetes.default.svc',
        'authorization-mode': 'RBAC',
        'service-cluster-ip-range': '10.0.0.0/24',
        'disable-admission-plugins': 'ServiceAccount',
        // No pod needs the address of this server.
        'endpoint-reconciler-type': 'none',
      }).map(([name, value]) => `--${name}=${value}`),
      ...flags,
    ],
    async probe({ directory, port }) {
      const ca = readFileSync(join(directory, files.serverCa), 'utf8')
      // The namespace is created shortly after the server reports that it is ready.
      for (const path of ['/readyz', '/api/v1/namespaces/default']) {
        const { status } = await requestJson({ url: url(port), ca, token: tokenOf('admin'), path, timeoutMs: 1_000 })
        if (status !== 200) throw new Error(`kube-apiserver answered ${status} to ${path}`)
      }
    },
    url,
    stopSignal: 'SIGKILL',
  }
}

function openssl(directory: string, ...args: string[]): void {
  execFileSync(pathOf(programs.openssl), args, { cwd: directory, stdio: 'pipe' })
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

function makeClientCa(directory: string): void {
  const { clientCa, clientCaKey } = files
  const subject = ['-subj', '/CN=tenure tests']
  openssl(directory, 'req', '-x509', ...newKey, ...subject, '-days', '2', '-keyout', clientCaKey, '-out', clientCa)
}

/** Returns a key and a certificate that authenticate this user to the API server of this directory. */
export function signClientCertificate(directory: string, user: string, groups: readonly string[]) {
  const subject = [`/CN=${user}`, ...groups.map((group) => `/O=${group}`)].join('')
  // Other processes may be signing at the same time.
  const folder = mkdtempSync(join(directory, 'client-'))
  openssl(folder, 'req', ...newKey, '-subj', subject, '-keyout', 'key', '-out', 'request')
  const ca = ['-CA', join(directory, files.clientCa), '-CAkey', join(directory, files.clientCaKey)]
  const serial = ['-set_serial', String(randomInt(2 ** 40))]
  openssl(folder, 'x509', '-req', '-in', 'request', ...ca, ...serial, '-days', '2', '-out', 'certificate')
  const read = (file: string) => readFileSync(join(folder, file), 'utf8')
  return { cert: read('certificate'), key: read('key') }
}
