import { expect, test } from 'vitest'
import { KubernetesClient } from '../../../src/clients/kubernetes/client.ts'

const clientOf = (server: unknown) => () =>
  new KubernetesClient({ server: server as string, credentials: () => ({ tls: {} }) })

test('KubernetesClient accepts only https: URLs', () => {
  for (const server of [undefined, '', 'api.example.com', 'http://api.example.com', 'ftp://api.example.com', 7]) {
    expect(clientOf(server)).toThrow(/Option "server" is .*https: URL of a Kubernetes API server/)
  }
  for (const server of ['https://10.0.0.1', 'https://[::1]:6443', 'https://example.com/k8s/clusters/c-1/']) {
    expect(clientOf(server)).not.toThrow()
  }
})

test('KubernetesClient refuses a URL with a password and does not show the password', () => {
  expect(clientOf('https://user:hunter2@example.com')).toThrow(
    /"example.com", but the URL of an API server must not contain a password/,
  )
})
