// Three processes on one machine. Several machines need a store that all of them can reach.
module.exports = {
  apps: [{ name: 'my-app', script: './server.mjs', exec_mode: 'cluster', instances: 3, kill_timeout: 30_000 }],
}
