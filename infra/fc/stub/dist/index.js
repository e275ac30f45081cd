// Stands in for the component fc3 of Serverless Devs: it holds the properties of a
// function to infra/fc/schema.json, and prints what it is told to deploy. fc3 itself
// comes from a registry at first use, lets typos pass, and needs an account.
'use strict';

const fs = require('fs');
const path = require('path');

const whole = JSON.parse(fs.readFileSync(path.join(__dirname, '..', '..', 'schema.json'), 'utf8'));

class Stub {
  // getSchema returns the JSON schema of the properties, as "s verify" asks for it.
  async getSchema() {
    return JSON.stringify({ ...whole.definitions.props, definitions: whole.definitions });
  }

  // deploy prints the properties as one line and deploys nothing.
  async deploy(inputs) {
    console.log('stub deploys ' + JSON.stringify(inputs.props));
    return { functionName: inputs.props.functionName };
  }

  // plan says what there is without an account: nothing.
  async plan(inputs) {
    console.log('stub plans ' + inputs.props.functionName);
    return { functionName: inputs.props.functionName };
  }
}

exports.default = Stub;
