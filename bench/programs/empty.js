// The baseline: the time that Node itself takes to run a module.
if (typeof process !== 'object') throw new Error('This program must run in Node.')
