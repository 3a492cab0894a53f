// hold.mjs DIRECTORY: leads until it is killed.
import { Elector } from 'tenure'
import { fileStore } from 'tenure/stores/file'

const elector = new Elector({ store: fileStore({ directory: process.argv[2] ?? '' }), election: 'jobs' })
elector.start()
console.log((await elector.waitForLeadership()).term)
