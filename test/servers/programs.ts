import { join } from 'node:path'
import type { Program } from './find.ts'

/** Every program that tests use beside Node, and how it is had. `npm run servers` gets those that are missing. */
export const programs = {
  redis: { variable: 'TENURE_REDIS_SERVER', binary: 'redis-server', source: { aptPackage: 'redis-server' } },
  postgres: {
    variable: 'TENURE_POSTGRES',
    binary: 'postgres',
    directories: ['/usr/lib/postgresql/*/bin'],
    source: { aptPackage: 'postgresql' },
  },
  etcd: {
    variable: 'TENURE_ETCD',
    directoryVariable: 'KUBEBUILDER_ASSETS',
    binary: 'etcd',
    source: { aptPackage: 'etcd-server' },
  },
  kubeApiserver: {
    variable: 'TENURE_KUBE_APISERVER',
    directoryVariable: 'KUBEBUILDER_ASSETS',
    binary: 'kube-apiserver',
    source: { goModule: join(import.meta.dirname, 'kube-apiserver'), buildMinutes: 6 },
  },
  /** A candidate that campaigns with the library of Kubernetes itself. */
  clientGo: {
    variable: 'TENURE_CLIENT_GO',
    binary: 'tenure-client-go',
    source: { goModule: join(import.meta.dirname, 'client-go'), buildMinutes: 2 },
  },
  /** Tries requests of all kinds on a service, and compares its answers with its OpenAPI document. */
  schemathesis: {
    variable: 'TENURE_SCHEMATHESIS',
    binary: 'schemathesis',
    source: { pythonRequirements: join(import.meta.dirname, 'schemathesis/requirements.txt') },
  },
  haproxy: {
    variable: 'TENURE_HAPROXY',
    binary: 'haproxy',
    directories: ['/usr/sbin'],
    source: { aptPackage: 'haproxy' },
  },
  nginx: { variable: 'TENURE_NGINX', binary: 'nginx', directories: ['/usr/sbin'], source: { aptPackage: 'nginx' } },
  openssl: { variable: 'TENURE_OPENSSL', binary: 'openssl', source: { aptPackage: 'openssl' } },
  cc: { variable: 'TENURE_CC', binary: 'cc', source: { aptPackage: 'build-essential' } },
  zsh: { variable: 'TENURE_ZSH', binary: 'zsh', source: { aptPackage: 'zsh' } },
  fish: { variable: 'TENURE_FISH', binary: 'fish', source: { aptPackage: 'fish' } },
  tmux: { variable: 'TENURE_TMUX', binary: 'tmux', source: { aptPackage: 'tmux' } },
  faketime: {
    variable: 'TENURE_FAKETIME',
    binary: 'libfaketimeMT.so.1',
    directories: ['/usr/lib/*/faketime'],
    source: { aptPackage: 'libfaketime' },
  },
} as const satisfies Record<string, Program>
