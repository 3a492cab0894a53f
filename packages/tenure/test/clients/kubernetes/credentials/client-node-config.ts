import { KubeConfig } from '@kubernetes/client-node'

export const server = 'https://10.0.0.1:6443'
export const base64 = (text: string) => Buffer.from(text).toString('base64')

export function config(cluster: object, user: object): KubeConfig {
  const made = new KubeConfig()
  made.loadFromOptions({
    clusters: [{ name: 'here', server, skipTLSVerify: false, ...cluster }],
    users: [{ name: 'me', ...user }],
    contexts: [{ name: 'me@here', cluster: 'here', user: 'me' }],
    currentContext: 'me@here',
  })
  return made
}
