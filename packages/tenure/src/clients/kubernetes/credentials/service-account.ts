import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { TenureError } from '../../../common/errors.ts'
import { KubernetesClient } from '../client.ts'
import type { Connection, ConfiguredNamespace } from '../connection.ts'
import { credentialFile } from '../../http/credential-file.ts'

const mountedAt = '/var/run/secrets/kubernetes.io/serviceaccount'

const clients = new Map<string, KubernetesClient>()

/**
 * The API server of the cluster that this pod runs in, with its service account's token. All callers in a process share
 * its connections.
 *
 * @example
 * const elector = new LeaderElector({ client: inCluster(), leaseName: 'my-app', leaseNamespace: 'default', identity,
 * callbacks })
 */
export function inCluster(): KubernetesClient {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env
  if (!host) {
    throw new TenureError(
      'BACKEND_UNAVAILABLE',
      'inCluster() works only in a pod: KUBERNETES_SERVICE_HOST is not set. Elsewhere, pass fromKubeConfig() or a KubeConfig from @kubernetes/client-node as the client.',
    )
  }
  const server = `https://${host.includes(':') ? `[${host}]` : host}:${port || '443'}`
  const known = clients.get(server)
  if (known) return known
  const client = new KubernetesClient(serviceAccount(server, mountedAt))
  clients.set(server, client)
  return client
}

/**
 * A service account as the kubelet mounts it: a directory with the files `token`, `ca.crt` and `namespace`. The kubelet
 * rotates the token every hour.
 */
export function serviceAccount(server: string, folder: string): Connection {
  const file = (name: string) => {
    const path = join(folder, name)
    return credentialFile(path, (cause) => {
      const text = `The service account's file ${path} cannot be read. Check whether the pod sets automountServiceAccountToken: false.`
      return new TenureError('BACKEND_UNAVAILABLE', text, { cause, retryable: true })
    })
  }
  const token = file('token')
  const ca = file('ca.crt')
  return {
    server,
    credentials: () => ({ authorization: `Bearer ${token().trim()}`, tls: { ca: ca() } }),
    configuredNamespace: () => configuredNamespaceOf(join(folder, 'namespace')),
  }
}

function configuredNamespaceOf(path: string): ConfiguredNamespace | undefined {
  try {
    const namespace = readFileSync(path, 'utf8').trim()
    return namespace === ''
      ? undefined
      : { namespace, description: `This pod is in ${JSON.stringify(namespace)} (${path}).` }
  } catch {
    // Used only for advice. The first call reports missing files.
    return undefined
  }
}
