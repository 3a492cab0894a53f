// Loads the same package from a CommonJS module.
const { lead } = require('tenure')
const { openStore } = require('tenure/stores')

void openStore('memory:').then((store) =>
  lead({ store, election: 'jobs' }, async ({ term }) => console.log(JSON.stringify({ term }))),
)
