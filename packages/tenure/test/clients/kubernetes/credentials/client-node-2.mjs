// Leads once with the built package and a KubeConfig from another major version, and prints the result.
import { pathToFileURL } from 'node:url'
import { Elector } from 'tenure'
import { kubernetesStore } from 'tenure/stores/kubernetes'

const [clientNode = '', kubeConfig = '', context = '', namespace = '', election = ''] = process.argv.slice(2)

/** @type {typeof import('@kubernetes/client-node')} */
const { KubeConfig } = await import(pathToFileURL(clientNode).href)
const client = new KubeConfig()
client.loadFromFile(kubeConfig)
client.setCurrentContext(context)

const store = kubernetesStore({ client, namespace })
const elector = new Elector({ store, election, identity: context })
elector.start()
const { term } = await elector.waitForLeadership()
const record = await store.read(election, { signal: new AbortController().signal })
await elector.stop()
await store.close?.()
console.log(JSON.stringify({ node: process.versions.node, term, holder: record?.holder }))
