// Measures the cost of isLeader() as a multiple of reading the clock.
import { Elector, memoryStore } from 'tenure'

const [rounds = 0, calls = 0] = process.argv.slice(2).map(Number)
const elector = new Elector({ store: memoryStore(), election: 'bench' })
elector.start()
await elector.waitForLeadership()

let yes = 0
let sum = 0
const results = []
for (let round = 0; round < rounds; round++) {
  const start = performance.now()
  for (let call = 0; call < calls; call++) sum += performance.now()
  const middle = performance.now()
  for (let call = 0; call < calls; call++) if (elector.isLeader()) yes += 1
  const end = performance.now()
  results.push({ clockNs: ((middle - start) / calls) * 1e6, isLeaderNs: ((end - middle) / calls) * 1e6 })
}
await elector.stop()
// Both sums are used. Otherwise the compiler could drop the loops.
if (yes !== rounds * calls || !(sum > 0)) throw new Error(`led in ${yes} of ${rounds * calls} calls`)
console.log(JSON.stringify(results))
