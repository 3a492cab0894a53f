import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { KubernetesClient as Client } from '../../src/clients/kubernetes/client.ts'
import { Mount } from '../clients/kubernetes/credentials/account-mount.ts'
import { config, server } from '../clients/kubernetes/credentials/client-node-config.ts'
import { folderOfFiles, kubeConfig } from '../clients/kubernetes/credentials/kube-config-file.ts'

// Uses fresh modules, because a process limits how often it gives advice, and other tests may have reached the limit.
vi.resetModules()
const { KubernetesClient } = await import('../../src/clients/kubernetes/client.ts')
const { fromKubeConfig } = await import('../../src/clients/kubernetes/credentials/kube-config.ts')
const { LeaderElector } = await import('../../src/api/leader-elector.ts')
const { serviceAccount } = await import('../../src/clients/kubernetes/credentials/service-account.ts')
const { kubernetesStore } = await import('../../src/stores/kubernetes/index.ts')

const { write } = folderOfFiles()
const options = { leaseName: 'my-app', identity: 'pod-a', callbacks: { onStartedLeading: () => undefined } }
const elector = (client: Client, leaseNamespace: string) => new LeaderElector({ ...options, client, leaseNamespace })

/** A pod with a mounted namespace file, or without one. */
function pod(namespace?: string) {
  const { folder } = new Mount({ token: 't', 'ca.crt': 'c', ...(namespace !== undefined && { namespace }) })
  return { client: new KubernetesClient(serviceAccount(server, folder)), path: `${folder}/namespace` }
}

/** A KubeConfig from @kubernetes/client-node. */
function clientNode(namespace: string | undefined) {
  const made = config({}, { token: 't' })
  for (const context of made.contexts) Object.assign(context, { namespace })
  return made
}

/**
 * Collects the warnings of the process from now on. Each message is emitted once, so each test has its own namespace.
 */
function listen() {
  const warnings: string[] = []
  const hear = ({ name, message }: Error) => void (name === 'TenureWarning' && warnings.push(message))
  process.on('warning', hear)
  onTestFinished(() => void process.off('warning', hear))
  return async () => {
    await new Promise((resolve) => setImmediate(resolve))
    return warnings
  }
}

beforeEach(() => {
  vi.stubEnv('POD_NAMESPACE', '')
  return () => vi.unstubAllEnvs()
})

describe('warnings about the default namespace', () => {
  test("a warning names the pod's namespace and what to set", async () => {
    const warnings = listen()
    const { client, path } = pod('in-a-pod')
    expect(kubernetesStore({ client }).namespace).toBe('default')
    kubernetesStore({ client })
    expect(await warnings()).toEqual([
      `Leases are kept in the namespace "default", because POD_NAMESPACE is not set. This pod is in "in-a-pod" (${path}). ` +
        'With cluster-wide permissions, elections with the same name in two namespaces would share one Lease. ' +
        'Set POD_NAMESPACE (in a pod with the downward API), or pass namespace: "in-a-pod" (in a URL: kubernetes://in-a-pod).',
    ])
  })

  test("a warning names the namespace of a kubeconfig's context", async () => {
    const warnings = listen()
    const path = write(kubeConfig({ server, 'insecure-skip-tls-verify': true }, { token: 't' }))
    kubernetesStore({ client: fromKubeConfig(path) })
    expect(await warnings()).toEqual([
      expect.stringContaining(`The context "me@here" of ${path} has the namespace "jobs". `),
    ])
  })

  test("a warning names the namespace of a KubeConfig's context", async () => {
    const warnings = listen()
    kubernetesStore({ client: clientNode('of-a-context') })
    expect(await warnings()).toEqual([
      expect.stringContaining('The context "me@here" of the KubeConfig has the namespace "of-a-context". '),
    ])
  })

  test('a LeaderElector with the namespace "default" warns too, as with process.env.POD_NAMESPACE ?? "default"', async () => {
    const warnings = listen()
    elector(pod('of-an-elector').client, 'default')
    expect(await warnings()).toEqual([
      expect.stringMatching(/"of-an-elector" .* or pass leaseNamespace: "of-an-elector"/),
    ])
  })
})

describe('no warnings about the default namespace', () => {
  test('there is no warning if a namespace is chosen', async () => {
    const warnings = listen()
    const { client } = pod('chosen')
    expect(kubernetesStore({ client, namespace: 'default' }).namespace).toBe('default')
    kubernetesStore({ client, namespace: 'another' })
    elector(client, 'chosen')
    vi.stubEnv('POD_NAMESPACE', 'chosen')
    expect(kubernetesStore({ client }).namespace).toBe('chosen')
    elector(client, 'default')
    expect(await warnings()).toEqual([])
  })

  test('there is no warning if the namespaces are the same, or if none is defined', async () => {
    const warnings = listen()
    const path = write(kubeConfig({ server, 'insecure-skip-tls-verify': true }, { token: 't' }).replace('jobs', '""'))
    const clients = [pod('default').client, pod('').client, pod().client, fromKubeConfig(path)]
    for (const client of [...clients, clientNode(undefined), clientNode('default')]) kubernetesStore({ client })
    expect(await warnings()).toEqual([])
  })

  test('there is no warning if the KubeConfig does not reveal its namespace', async () => {
    const warnings = listen()
    kubernetesStore({ client: { getCurrentCluster: () => ({ server }), applyToHTTPSOptions: async () => undefined } })
    expect(await warnings()).toEqual([])
  })
})
