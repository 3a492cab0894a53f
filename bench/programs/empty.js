// What Node itself takes to run a module.
if (typeof process !== 'object') throw new Error('This is not Node.')
